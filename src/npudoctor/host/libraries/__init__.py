"""Shared libraries and programs as files: what ELF says, and which file the loader would take. Nothing is
loaded.

What a whole job would load, and whether it goes together, is `facts.job`.
"""
