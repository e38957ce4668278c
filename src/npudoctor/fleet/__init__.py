"""Many nodes: their reports read, merged, and compared with each other.

Here belongs what is said of several nodes together. What is said of one is the runner's; how it looks is
render's. A report of another node is untrusted data: every field may be missing, huge or hostile.
"""
