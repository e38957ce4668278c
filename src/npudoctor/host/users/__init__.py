"""Reads who runs npudoctor, the names of users and groups, and what a user may do with a folder.

This is judged from ids, modes and /etc/passwd. The owners of processes are in `host.process`.
"""
