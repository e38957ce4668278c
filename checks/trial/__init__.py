"""Checks that try what the first minute of a job does, and give everything back."""
