"""Machines on which framework-imports says all that it can say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.deep.framework_imports import framework_imports as check
from npudoctor.testing import Asked

from ..checks.deep.probe_machine import asked, died, dies_too_late, each, ends  # noqa: TID252


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each way in which a probe ends."""
    yield asked(check, ends(ended="exited"))
    yield asked(check, lambda argv: {"seconds": 90.0, "bytes": 1, "versions": {"torch": "2"}}, "torch")
    yield asked(check, ends(ended="timeout", seconds=120.0), "torch")
    for status in (0, 1, -11):
        yield asked(check, ends(ended="exited", status=status, stderr="ImportError: libx.so"), "torch")
    yield asked(check, ends(ended="not-started", stderr="[Errno 8] ENOEXEC: /bin/x"), "torch")
    yield asked(check, ends(ended="exited"), "torch", until=time.monotonic())
    well: dict[str, object] = {"versions": {}, "seconds": 1.0, "bytes": 1}
    yield asked(check, each(died(6), well), "torch")
    yield dies_too_late(check)
