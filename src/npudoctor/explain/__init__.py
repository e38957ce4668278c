"""Explains failing logs: scans their bytes, recognises signatures, and ranks what was found.

Only what logs alone tell belongs here. The command decides which checks to run besides, and what to print.
"""
