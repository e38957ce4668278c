"""The job that would be started here: who starts it and where, its ranks, its nodes, its ports, its
libraries.

Here belongs what variables, launchers and the search path come to when they are taken together.
"""
