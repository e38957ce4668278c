"""The words of a command line: how they are described, what they may be, and what they mean.

Here belongs what is refused before anything is checked. What a setting means, whether it comes from a flag, a
variable or a file, is `cli.config`.
"""
