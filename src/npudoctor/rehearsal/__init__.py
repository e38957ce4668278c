"""Builds faulty machines to try npudoctor on: each fault is made inside namespaces of its own.

What builds such a machine and what happens in it belongs here. It does not know how checks work: npudoctor is
started there as a program. Printing the steps belongs to `cli`.
"""
