"""Runs the checks and makes the report: deadlines, crashes, parallelism, the verdict and its line.

What concerns many checks at once belongs here; how a report looks on a terminal or as JSON, in `render`.
"""
