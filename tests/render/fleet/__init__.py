"""The pages and texts about many nodes."""
