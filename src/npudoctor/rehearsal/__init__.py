"""Sick machines to look at: faults, made in namespaces of their own or on a made-up machine inside of them.

Here belongs what builds such a machine, and what happens in it. It knows nothing of how a check works: the
doctor is started there as a program. Printing what was done is `cli`'s.
"""
