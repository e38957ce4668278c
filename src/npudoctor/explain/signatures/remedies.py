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
    """Returns the lines of a remedy in the active language, without repeats, with this machine's paths.

    `installed` is None where the machine was not examined (a log from elsewhere): then each line that needs
    CANN or NNAL names that condition, and the last line says what to do without CANN.
    """
    lines: list[str] = []
    depends_on_cann = False
    here = installed or InstalledCann(None, None, None)
    for line in remedy[language()]:
        needs_nnal = bool(_NNAL.search(line))
        # Such a line does nothing without CANN.
        needs_cann = bool(_CANN.search(line)) or _ENV in line or _LATEST in line
        if installed is None:
            if needs_cann:
                depends_on_cann = True
                line = _("if CANN is installed: {line}", line=line)
            elif needs_nnal:
                line = _("if NNAL is installed: {line}", line=line)
        elif needs_cann and here.cann is None:
            line = _("CANN is not installed on this machine: install the release that the framework requires")
        elif needs_nnal and here.nnal_script is None:
            line = _("NNAL is not installed on this machine: install the release of the CANN in use")
        elif _CANN.search(line) and here.cann_script is None:
            line = _ENV
        else:
            # Replaced by a function, because re.sub() expands backslashes in a replacement string, and a path
            # may contain one.
            line = _CANN.sub(lambda _match: here.cann_script or "", line)
            line = _NNAL.sub(lambda _match: here.nnal_script or "", line)
            line = line.replace(_LATEST, here.cann or _LATEST)
        lines.append(line)
    if depends_on_cann:
        lines.append(
            _(
                "if CANN is not installed: install the release that the framework requires, then follow the "
                "steps above"
            )
        )
    return tuple(dict.fromkeys(lines))
