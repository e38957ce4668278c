"""What every other part may import, and what imports nothing of ours: the model, messages, errors, values.

Here belongs what has no opinion about machines: how a value is made, a sentence translated, a secret
struck out, a thread started. Here does not belong what asks the machine for the sake of a check: that
is `host`.
"""
