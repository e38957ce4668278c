"""Scripts that run in a child of the job's interpreter: `attempts` stands before each of the others.

No import of ours is left there, and of the standard library only what each attempt itself needs, at its
place: what is missing from this Python is an answer. The oldest Python is 3.6.
"""
