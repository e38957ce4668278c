"""The commands of `npudoctor fleet`: one file per command, and what they share.

What a person types and reads belongs here; reaching the nodes and merging their reports, in
`npudoctor.fleet`.
"""
