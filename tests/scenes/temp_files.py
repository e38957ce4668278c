"""Machines on which temp-files says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.checks.leftovers.test_temp_files import LOCK, PYMP, judged, left, lock

from npudoctor.host import Options
from npudoctor.testing import Asked, unreadable


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield judged({LOCK: lock()})
    yield judged({LOCK: lock(), "/.dockerenv": ""})
    yield judged({PYMP: left(), f"{PYMP}/listener-x1": ""})
    yield judged({f"/tmp/pymp-{number}": left() for number in range(30)})
    yield judged({}, options=Options(only_job="7"))
    yield judged({"/tmp": unreadable()})
