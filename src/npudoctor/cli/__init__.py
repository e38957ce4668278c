"""One file a command; the only place that prints, prompts and exits.

Here belongs what is about words of a command line, a terminal, an exit status. What is done lies in the
other parts.
"""
