"""Where checks come from: our own, a directory of the administrator's, other packages; and the child in
which foreign ones run.

Here belongs who may supply a check, and how it is loaded. What a check must look like is `checking`.
"""
