"""The only door to the machine: read-only, one file a subject, `Host` on top.

Here belongs what the machine says, never whether that is right: what follows from it is `facts`, what
is judged is a check's. No file of it knows of checks, findings or steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npudoctor.core.errors import CannotTell, NotRunning

if TYPE_CHECKING:
    from npudoctor.host.host import Host, Options

__all__ = ["CannotTell", "Host", "NotRunning", "Options"]


def __getattr__(name: str) -> object:
    """All of the machine: who only asks for files does not pay for loading the rest."""
    if name not in ("Host", "Options"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from npudoctor.host import host

    return getattr(host, name)
