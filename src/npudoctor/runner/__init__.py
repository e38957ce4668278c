"""Asks the checks and makes the report: deadlines, crashes, parallelism, the verdict and the line that
says it.

Here belongs what is about many checks at once. How a report looks on a terminal or as JSON is `render`.
"""
