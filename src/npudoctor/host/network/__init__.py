"""The network as this machine's namespace has it: interfaces, routes, sockets, names.

Here belongs what the kernel and the resolver say. Which packets a rule set lets through is `firewall`.
"""
