"""`npudoctor fleet`: one file a command, and what they share.

Here belongs what a person types and reads. How nodes are asked, and how their reports become one, is
`npudoctor.fleet`.
"""
