"""What proves that a leftover is dead: rules over what the host saw, each with its reason.

It returns evidence and marks, never steps: what is done about it a check proposes and `fixing` does,
which asks these rules once more right before.
"""
