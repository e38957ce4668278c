"""What a failing log means: scan its bytes, recognise signatures, rank what was found.

Here belongs what is told from logs alone. Which checks to ask beside, and what is shown, is the command's.
"""
