"""Tables of what is published about versions, variables and failures, each row with its source.

Also reads rows that a site adds, and compares versions with rows. What is installed is read by `host`.
"""
