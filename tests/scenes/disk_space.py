"""Machines on which disk-space says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor.checks.host import disk_space as module
from npudoctor.host.fs.files import Space
from npudoctor.testing import Asked, Content, Node, unreadable

from ..checks.host.test_disk_space import GIB, MIB, PLENTY, told  # noqa: TID252


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    files: dict[str, Content] = {f"/tmp/{number}": Node(uid=1000, held=GIB) for number in range(3)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST", 2)
        yield told(Space(100 * GIB, 900 * MIB, 0, 0, 2), files=files)
    yield told(Space(100 * GIB, MIB, 1 << 20, 3, 2))
    yield told(Space(100 * GIB, 50 * GIB, 1 << 20, 300, 2))
    yield told(PLENTY, files={"/tmp": unreadable(5)})
