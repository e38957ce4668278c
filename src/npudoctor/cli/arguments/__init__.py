"""The arguments of a command line: their declarations, their validation, and their parsing.

What is refused before anything is checked belongs here; settings, which may come from a flag, a variable or a
file, belong to `cli.config`.
"""
