"""Reads NPUs and GPUs from the kernel, the drivers' files and the vendors' tools.

What a tool prints is parsed here, once for all checks; whether it is good or bad, a check says.
"""
