"""Starts the job as a child process, acts in its place, and lets the ranks of a node share one answer.

The life of the job's process belongs here; what is checked before and printed afterwards, in the commands.
"""
