"""Fixing: steps as data, one engine that applies them, a journal written before anything is touched.

The only code that changes a machine. Which step fixes a finding is up to the check; whether a leftover is
dead, to `proof`.
"""
