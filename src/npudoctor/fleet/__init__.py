"""Many nodes: reads their reports, merges them, and compares the nodes with each other.

Results about several nodes belong here; results about one node belong to `runner`, their layout to `render`.
A report from another node is untrusted data: every field may be missing, huge or hostile.
"""
