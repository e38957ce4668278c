"""Reads the network of our network namespace: interfaces, routes, sockets and the resolution of names.

What the kernel and the resolver say belongs here; which packets a rule set lets through is in `firewall`.
"""
