"""Signatures of failures: validates their rows, extracts literals from their patterns, recognises lines.

The rows are data of `knowledge`; `explain.scanning` looks for them in logs.
"""
