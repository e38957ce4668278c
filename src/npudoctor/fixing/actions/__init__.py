"""What a step does to a machine, after checking its guard once more: the only code that changes anything.

Here belongs one file for each kind of object. The plan decides which steps are taken, and
in which order.
"""
