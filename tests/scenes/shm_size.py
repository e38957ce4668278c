"""Machines on which shm-size says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.host.shm_size import shm_size
from npudoctor.testing import Asked, ask, fake_host

from ..checks.host.test_shm_size import GIB, MIB, told  # noqa: TID252


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told(MIB)
    yield told(MIB, container=True)
    yield told(100 * MIB)
    yield told(GIB, MIB)
    yield ask(shm_size, fake_host())
