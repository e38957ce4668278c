"""Mending: steps as data, one engine that applies them, a journal written before anything is touched.

The only code that changes a machine. Which step mends what a check says; whether a leftover is dead is
`proof`.
"""
