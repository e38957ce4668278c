"""The programs that reach the nodes: as root only such that nobody else could have written."""

from __future__ import annotations

import os

from npudoctor.core.errors import CannotTell
from npudoctor.core.trust.paths import why_untrusted
from npudoctor.launch.program import CannotStart, find_program


def trusted_program(name: str) -> str:
    """The absolute path of a program of PATH; CannotTell when there is none, or none that root may start."""
    try:
        path = os.path.abspath(find_program(name, os.environ))
    except CannotStart as error:
        raise CannotTell(error.reason) from error
    reason = why_untrusted(path, 0) if os.geteuid() == 0 else None
    if reason is not None:
        raise CannotTell(f"{name}: {reason}")
    return path
