"""The command itself, run as people run it."""
