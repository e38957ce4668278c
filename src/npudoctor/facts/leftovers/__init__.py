"""What training leaves behind: where cache servers, libraries and builds put things, and who keeps them.

Here belongs what is there. Whether it is dead is for `proof`, which must not be told twice in two ways.
"""
