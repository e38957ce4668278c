"""The words of a command line: what they may be, and which file, process or user they mean.

Here belongs what refuses before anything is asked. What a setting means wherever it was said is
`cli.settings`.
"""
