"""Whether a module that a message names is the job's own: a file or folder of the traceback is called so."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npudoctor.core.lazy import pattern

_NAMED = pattern(r"(?:No module named|from|module) '(\w+)")
_FRAME = pattern(r'File "([^"<>]+)", line \d+')
_INSTALLED = pattern(r"(?:site|dist)-packages/|/lib(?:64)?/python\d")


def is_module_of_job(lines: Sequence[str]) -> bool:
    """Whether the module that the last line names is a file of the job or lies in a folder of it, as far as
    the lines above show."""
    module = _NAMED.search(lines[-1])
    if module is None:
        return False
    if "is not a package" in lines[-1]:
        return True
    paths = [path for line in lines[:-1] for path in _FRAME.findall(line)]
    own = [path for path in paths if not _INSTALLED.search(path)]
    return any(part.removesuffix(".py") == module[1] for path in own for part in path.split("/"))


def is_frame_of_package(lines: Sequence[str]) -> bool:
    """Whether the last frame that these lines show is of an installed package."""
    frames = [path for line in lines for path in _FRAME.findall(line)]
    return bool(frames) and bool(re.search(r"(?:site|dist)-packages/", frames[-1]))
