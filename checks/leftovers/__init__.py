"""Checks for what dead jobs left behind: shared memory, sockets, files and processes."""
