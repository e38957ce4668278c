"""Ranks findings of all logs together: what ended the job, what only follows from it, what is unknown.

Reads no files.
"""
