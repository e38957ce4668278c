"""What follows from what the host says; each module takes a Host, or what one of its parts has read.

Here belongs what several checks conclude alike. It has no findings, proposes nothing, and changes
nothing.
"""
