"""Reads files and folders below "/" or below --root; no dead mount, FIFO or link can make it hang.

How a path is resolved and who owns it belongs here. What a file contains is parsed by the module of its
subject.
"""
