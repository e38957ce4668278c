"""NPUs and GPUs as the kernel, the drivers' files and the vendors' tools tell them.

Here belongs what a tool prints, read once for all checks. What of it is well or ill, a check says.
"""
