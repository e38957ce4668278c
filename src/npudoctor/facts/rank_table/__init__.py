"""The rank table of a job: its file, what it says in any template, its own rules, this machine beside it.

Here belongs all that is known of rank tables, in this order: `model` (servers and ranks), `reading` (the
file that a job names), `rules` (what is wrong in itself), `here` (what is wrong on this machine). Sentences
are made here; codes and remedies are the check's.
"""
