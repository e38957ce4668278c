"""Reads the Python that will run the job from its folders: its search path, and what is installed.

Nothing that is examined is imported. Whether packages fit together is judged in `facts.python` and checks.
"""
