"""Machines on which clock says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.host.clock import clock
from npudoctor.testing import Asked, ask, fake_host


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(clock, fake_host(now=0.0, synchronised=False, commands={"chronyc": ""}))
    yield ask(clock, fake_host(synchronised=None))
