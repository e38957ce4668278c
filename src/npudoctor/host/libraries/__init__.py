"""Reads shared libraries and programs as ELF files, and finds the files that the loader would take.

Nothing is loaded or run. What a whole job would load, and whether it fits together, is in `facts.job`.
"""
