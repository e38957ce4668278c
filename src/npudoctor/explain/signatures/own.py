"""Whether a module that a message names is the job's own: a file or folder of the traceback is called so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_NAMED = re.compile(r"(?:No module named|from|module) '(\w+)")
_FRAME = re.compile(r'File "([^"<>]+)", line \d+')
_INSTALLED = re.compile(r"(?:site|dist)-packages/|/lib(?:64)?/python\d")


def of_the_job(lines: Sequence[str]) -> bool:
    """Whether the module that the last line names is a file of the job or lies in a folder of it, as far as
    the lines above show."""
    named = _NAMED.search(lines[-1])
    if named is None:
        return False
    return "is not a package" in lines[-1] or named[1] in set(_names(lines[:-1]))


def of_a_package(lines: Sequence[str]) -> bool:
    """Whether the last frame that these lines show is of an installed package."""
    frames = [path for line in lines for path in _FRAME.findall(line)]
    return bool(frames) and bool(re.search(r"(?:site|dist)-packages/", frames[-1]))


def _names(lines: Sequence[str]) -> Iterator[str]:
    """The names of all files and folders of a traceback that are not of an installed package."""
    for line in lines:
        for path in _FRAME.findall(line):
            if not _INSTALLED.search(path):
                yield from (part.removesuffix(".py") for part in path.split("/"))
