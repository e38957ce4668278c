"""What the start of a program loads before it does what it was told, read without starting it.

Here belong the line `#!`, the loader's libraries, and what Python's `site` runs. Which packages are in the
folders that it adds is `host.python`; what root makes of the answer, `Commands`.
"""
