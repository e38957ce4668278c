"""How serious a line says it is itself, and whether a line says that the job went on."""

from __future__ import annotations

import re
from typing import Optional

_LOW = re.compile(
    r"^[ \t]*\[?(?:WARNING|WARN|INFO|DEBUG|EVENT|TRACE|NOTICE)\b"
    r"|^\[?[IW]\d{3,4} \d\d:|^\[[IWD]\d* |^\(\w+ pid=\d+\) (?:INFO|WARNING|DEBUG) "
    r"|[\[\s|:-](?:WARNING|WARN|INFO|DEBUG)(?:\]| -| ?\||:| \d\d-\d\d \d\d:| \[)"
    r"|(?:User|Deprecation|Future|Runtime|Resource|Import|Syntax)Warning: |: warning: |NCCL INFO "
    r"|\blevel=(?:warn|info|debug)"
)
# What NCCL warns of is what it then fails with; of a GPU that it cannot use PyTorch only warns, and nothing
# that follows says why; a warning may carry the error of CANN.
_NOT_LOW = re.compile(r"NCCL WARN|CUDA initialization: |\b(?:ERROR|CRITICAL|FATAL)\b|^\[?[EF]\d{4} ")
_ERROR = re.compile(
    r"^[ \t]*\[?(?:ERROR|FATAL|CRITICAL)\b(?![_=%]| (?:rate|count|code: 0\b))|^\[[EF]\d* |^\[?[EF]\d{4} \d\d:"
    r"|[\[\s|](?:ERROR|FATAL|CRITICAL)(?:\]| -| ?\|| \d\d-\d\d \d\d:| \[)"
)
_PROGRESS = re.compile(
    r"(?i)\b(?:global[_ ]?step|step|epoch|iter(?:ation)?)s?\b['\"\]]?\s*[:=\[( ]+\s*\d+"
    r".*\b(?:loss|lr|time|acc|grad)"
    r"|^\{['\"]loss['\"]: [\d.]+,|\bloss\b['\"]?\s*(?:is|[:=])\s*-?\d+\.\d+"
    r"|\d+%\|[█#▏▎▍▌▋▊▉ -]*\| *\d+/\d+ \["
)
_BAR = re.compile(r"\d+%\|[█#▏▎▍▌▋▊▉ -]*\| *(\d+)/(\d+) \[")
_SUCCESS = re.compile(
    r"(?i)\b(?:training|train|job|task|run|inference|evaluation) (?:is |has |was )?"
    r"(?:done|completed?|finished|succe(?:ss|eded))\b"
    r"|Application startup complete|Uvicorn running on http"
    r"|exits? successfully|\bexit(?:ed with)? (?:code|status):? 0\b|^Successfully (?:ran|saved|installed)\b"
)


def low(line: str) -> bool:
    """Whether a line calls itself information or a warning."""
    return bool(_LOW.search(line[:300])) and not _NOT_LOW.search(line[:300])


def error(line: str) -> bool:
    """Whether a line calls itself an error."""
    return bool(_ERROR.search(line[:300]))


def bar(line: str) -> Optional[tuple[int, int]]:
    """Where the bar on a line stands, and where it ends; None when there is none."""
    found = _BAR.search(line[:1000])
    return found and (int(found.group(1)), int(found.group(2)))


def progress(line: str) -> bool:
    """Whether a line says that training went on, or ended well."""
    return bool(_PROGRESS.search(line[:1000]) or _SUCCESS.search(line[:1000]))
