"""What a signature advises, as it holds on a machine: its lines name the usual places of CANN and NNAL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, language

_ROOT = "/usr/local/Ascend"
# How the signatures name the scripts; in brackets behind it the place of another era.
_CANN = pattern(rf"{_ROOT}/(?:ascend-toolkit|cann)/set_env\.sh(?:\s+[(（][^)）]*set_env\.sh[)）])?")
_NNAL = pattern(rf"{_ROOT}/nnal/atb/set_env\.sh")
_LATEST = f"{_ROOT}/ascend-toolkit/latest"
_ENV = 'eval "$(npudoctor env)"'


@dataclass(frozen=True)
class InstalledCann:
    """What is installed on the machine: the folder of CANN and the scripts that set variables. None: not
    there; of `cann_script`: CANN has none, as before 6.0."""

    cann: Optional[str]
    cann_script: Optional[str]
    nnal_script: Optional[str]


def adapt_remedy(remedy: Mapping[str, Sequence[str]], installed: Optional[InstalledCann]) -> tuple[str, ...]:
    """The lines of a remedy in the language spoken, each once. Where nobody looked, each line that needs CANN
    or NNAL says so, and what to do without CANN comes last."""
    lines: list[str] = []
    wanting = False
    here = installed or InstalledCann(None, None, None)
    for line in remedy[language()]:
        of_nnal = bool(_NNAL.search(line))
        # Such a line does nothing without CANN.
        of_cann = bool(_CANN.search(line)) or _ENV in line or _LATEST in line
        if installed is None:
            if of_cann:
                wanting = True
                line = _("if CANN is installed: {line}", line=line)
            elif of_nnal:
                line = _("if NNAL is installed: {line}", line=line)
        elif of_cann and here.cann is None:
            line = _("CANN is not installed on this machine: install the release that the framework requires")
        elif of_nnal and here.nnal_script is None:
            line = _("NNAL is not installed on this machine: install the release of the CANN in use")
        elif _CANN.search(line) and here.cann_script is None:
            line = _ENV
        else:
            # A function as replacement: a path with a backslash is not a template then.
            line = _CANN.sub(lambda _match: here.cann_script or "", line)
            line = _NNAL.sub(lambda _match: here.nnal_script or "", line)
            line = line.replace(_LATEST, here.cann or _LATEST)
        lines.append(line)
    if wanting:
        lines.append(
            _(
                "if CANN is not installed: install the release that the framework requires, then follow the "
                "steps above"
            )
        )
    return tuple(dict.fromkeys(lines))
