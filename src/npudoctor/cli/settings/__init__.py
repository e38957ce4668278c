"""The settings of a run: the keys, what each may be, and where each value came from.

Here belongs what is the same for a file, a variable and a flag. What one flag alone means is its
command's.
"""
