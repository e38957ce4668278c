"""Reads processes and what they share from the kernel, and runs programs of the machine.

Whether a process is stale is not judged here but in `proof`.
"""
