"""What a signature advises, as it holds on a machine: its lines name the usual places of CANN and NNAL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _, language

_ROOT = "/usr/local/Ascend"
# How the signatures name the scripts; in brackets behind it the place of another era.
_CANN = re.compile(rf"{_ROOT}/(?:ascend-toolkit|cann)/set_env\.sh(?:\s+[(（][^)）]*set_env\.sh[)）])?")
_NNAL = re.compile(rf"{_ROOT}/nnal/atb/set_env\.sh")
_LATEST = f"{_ROOT}/ascend-toolkit/latest"
_ENV = 'eval "$(npudoctor env)"'


@dataclass(frozen=True)
class Installed:
    """What is installed on the machine: the folder of CANN and the scripts that set variables. None: not
    there; of `cann_script`: CANN has none, as before 6.0."""

    cann: Optional[str]
    cann_script: Optional[str]
    nnal_script: Optional[str]


def remedy_on(remedy: Mapping[str, Sequence[str]], installed: Optional[Installed]) -> tuple[str, ...]:
    """The lines of a remedy in the language spoken, each once."""
    lines = remedy[language()]
    told = _conditional(lines) if installed is None else _adapted(lines, installed)
    return tuple(dict.fromkeys(told))


def _conditional(lines: Sequence[str]) -> Iterator[str]:
    """Each line that needs CANN or NNAL says so; what to do without it comes last."""
    wanting = False
    for line in lines:
        if _of_cann(line):
            wanting = True
            yield _("if CANN is installed: {line}", line=line)
        elif _NNAL.search(line):
            yield _("if NNAL is installed: {line}", line=line)
        else:
            yield line
    if wanting:
        yield _("if CANN is not installed: install the release that the framework requires, then do that")


def _adapted(lines: Sequence[str], installed: Installed) -> Iterator[str]:
    for line in lines:
        if _of_cann(line) and installed.cann is None:
            yield _("CANN is not installed on this machine: install the release that the framework requires")
        elif _NNAL.search(line) and installed.nnal_script is None:
            yield _("NNAL is not installed on this machine: install the release of the CANN in use")
        elif _CANN.search(line) and installed.cann_script is None:
            yield _ENV
        else:
            yield _with_paths(line, installed)


def _with_paths(line: str, installed: Installed) -> str:
    line = _CANN.sub(lambda _match: installed.cann_script or "", line)
    line = _NNAL.sub(lambda _match: installed.nnal_script or "", line)
    return line.replace(_LATEST, installed.cann or _LATEST)


def _of_cann(line: str) -> bool:
    """Whether the line does nothing without CANN."""
    return bool(_CANN.search(line)) or _ENV in line or _LATEST in line
