"""Reads what the start of a program loads before its own code runs, without starting it.

This covers the line `#!`, the loader's libraries, and what Python's `site` runs. Which packages are in the
folders that `site` adds is in `host.python`; `Commands` decides by it what root starts.
"""
