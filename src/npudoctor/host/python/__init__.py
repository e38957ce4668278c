"""The Python that will run the job, read from its folders: where it looks for modules, what is installed.

Nothing here imports what it looks at. Whether what is there goes together is for `facts.python`, and
for checks.
"""
