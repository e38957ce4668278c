"""Checks of the machine itself: its accelerators, memory, disks, limits and clock."""
