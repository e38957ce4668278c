"""Machines on which framework-selftest says all that it can say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.deep.framework_selftest import framework_selftest as check
from npudoctor.testing import Asked

from ..checks.deep.probe_machine import asked, died, dies_too_late, each, ends  # noqa: TID252


def scene(tmp: Path) -> Iterator[Asked]:
    """The code, each ending."""
    yield asked(check, ends(ended="exited"))
    yield asked(check, ends(ended="exited", status=1, stderr="AssertionError"), "torch")
    yield asked(check, ends(ended="exited"), "torch", until=time.monotonic())
    well: dict[str, object] = {"seconds": 1.0, "versions": {}, "bytes": 1}
    yield asked(check, each(well, died(6), well), "torch")
    yield dies_too_late(check, well)
