"""Steps as data: each renders the line that a person would type, and carries the guard that must still
hold.

Here belongs nothing that acts: a check builds these, and they cross pipes and journals.
"""
