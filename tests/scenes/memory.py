"""Machines on which memory says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.host.memory import memory
from npudoctor.testing import Asked, ask, fake_host

from ..checks.host.test_memory import GIB, LIMITS, first, mapped, second, told  # noqa: TID252


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told(GIB)
    yield told(files=second(str(2 * GIB), 2 * GIB))
    yield told(files=first(8 * GIB, 9 * GIB))
    yield told(files={"/proc/self/limits": mapped("40960000", "unlimited")})
    yield told(files={"/proc/self/limits": mapped("40960000", "40960000")})
    yield told(files={"/proc/self/limits": LIMITS})
    yield ask(memory, fake_host({"/proc/meminfo": "MemTotal: 1 kB\n"}))
