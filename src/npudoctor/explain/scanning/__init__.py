"""Scans the bytes of one log in one pass: findings with the lines around them, and the course of the job.

Which of several findings is the cause is judged in `explain.ranking`.
"""
