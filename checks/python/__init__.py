"""Checks of the Python environment that the job will run in: packages and their versions."""
