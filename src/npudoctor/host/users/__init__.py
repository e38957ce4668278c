"""Who runs npudoctor, what the machine calls its users, and what their rights let them do with a folder.

Here belongs what ids, modes and /etc/passwd tell. Which processes are whose is `host.process`.
"""
