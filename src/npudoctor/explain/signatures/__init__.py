"""Signatures of failures, and how one line is recognised: what a row may be, its patterns, their literals.

The rows themselves are data of `knowledge`. In which text they are looked for is `explain.scanning`.
"""
