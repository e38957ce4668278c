"""Reads the machine, and never changes it: one file for each subject, and `Host`, which holds them all.

A file here reports what the machine says, not whether that is right: `facts` draws conclusions, checks
judge. No file here knows of checks, findings or steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npudoctor.core.errors import CannotTell, NotRunning

if TYPE_CHECKING:
    from npudoctor.host.host import Host, Options

__all__ = ["CannotTell", "Host", "NotRunning", "Options"]


def __getattr__(name: str) -> object:
    """Load `Host` and `Options` when they are first used: who imports only host.fs does not pay for them."""
    if name not in ("Host", "Options"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from npudoctor.host import host

    return getattr(host, name)
