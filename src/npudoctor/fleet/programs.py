"""Finds the programs that reach the nodes (ssh, srun); as root only those that no other user can modify."""

from __future__ import annotations

import os

from npudoctor.core.errors import CannotTell
from npudoctor.core.trust.paths import why_untrusted
from npudoctor.launch.program import CannotStart, find_program


def find_trusted_program(name: str) -> str:
    """The absolute path of a program on PATH. Raises CannotTell when there is none, or root must not trust
    it."""
    try:
        path = os.path.abspath(find_program(name, os.environ))
    except CannotStart as error:
        raise CannotTell(error.reason) from error
    reason = why_untrusted(path, 0) if os.geteuid() == 0 else None
    if reason is not None:
        raise CannotTell(f"{name}: {reason}")
    return path
