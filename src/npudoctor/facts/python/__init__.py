"""What the installed distributions come to together: what is required and not met, spoiled, or put in the
place of others, and the lines that change it.

What is installed, one by one, is `host.python`.
"""
