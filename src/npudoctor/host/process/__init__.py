"""Programs and processes: what runs here, as whom, and how a program of the machine is run for an answer.

Here belongs what the kernel says of processes and of what they share. Whether one is left over is for
`proof`.
"""
