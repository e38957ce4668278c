"""Output and its destinations, questions, progress, signals and errors.

Writing belongs here; the layout of a report belongs to `render`.
"""
