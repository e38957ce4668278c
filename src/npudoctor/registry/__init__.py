"""Finds and loads checks: built-in ones, drop-ins of the administrator, plug-ins of other packages.

Who may supply a check and how it is loaded belongs here; what a check must look like, in `checking`.
"""
