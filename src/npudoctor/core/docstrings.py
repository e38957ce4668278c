"""Docstrings, of which manuals are made."""

from __future__ import annotations


def dedent_docstring(docstring: str) -> str:
    """The text as inspect.cleandoc returns it; importing inspect takes longer than loading all checks to be
    listed.

    Until Python 3.13 all lines but the first keep the indentation of the code.
    """
    first, *rest = docstring.expandtabs().split("\n")
    # Blank lines have no margin of their own.
    margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    return "\n".join([first.lstrip(), *(line[margin:] for line in rest)]).strip("\n")
