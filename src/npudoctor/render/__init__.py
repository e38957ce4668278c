"""Reports and answers as text and as JSON.

Here belongs how something looks. It asks nothing and decides nothing, and prints nothing: that is the
command's.
"""
