"""Docstrings, of which manuals are made."""

from __future__ import annotations


def without_margin(docstring: str) -> str:
    """The text as inspect.cleandoc has it, whose module takes longer to load than all checks to be listed.
    Until Python 3.13 all lines but the first stand behind the margin of the code."""
    first, *others = docstring.expandtabs().split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in others if line.strip()), default=0)
    return "\n".join([first.lstrip(), *(line[margin:] for line in others)]).strip("\n")
