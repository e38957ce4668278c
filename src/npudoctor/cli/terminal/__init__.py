"""What leaves the program: output and where it goes, questions, progress, signals, refusals.

Here belongs the act of saying. How a report looks is `render`.
"""
