"""Files and folders: read below "/" or below --root, in a way that nothing can make hang.

Here belongs how a path is reached and whom it belongs to. What is written in a file of some subject is
read by that subject's own module.
"""
