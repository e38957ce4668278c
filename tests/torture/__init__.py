"""The torture of `fix --cache-server`: random machines, hostile users, kills, and an observer."""
