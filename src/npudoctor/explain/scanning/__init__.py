"""One pass over the bytes of a log: what is found, where, with the lines around, and the course of the
job.

Here belongs what is told of one log. Which of several findings is the cause is `explain.ranking`.
"""
