"""Starts the job as a child of ours, stands in for it, and lets the ranks of a node share one answer.

Here belongs the life of the job's process. What is checked before, and printed afterwards, is up to
the commands.
"""
