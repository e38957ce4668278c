"""Rule sets of nftables and iptables in one form, and what becomes of a packet in them.

Here belongs the reading and the walk through all tables, and `inbound`, which asks them for the job's
ports. Adding a rule is a step of `fixing`.
"""
