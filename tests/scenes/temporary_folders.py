"""Machines on which temporary-folders says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.testing import Asked, folder, unreadable

from ..checks.host.test_temporary_folders import (  # noqa: TID252
    CACHES,
    MOUNTS,
    OWN,
    READ_ONLY,
    SHM,
    TMP,
    told,
)


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    mounts = {"/proc/self/mountinfo": MOUNTS.format(point=SHM, options=READ_ONLY[0])}
    yield told(dict(mounts))
    yield told({**mounts, "/.dockerenv": ""})
    yield told({TMP: folder(0o755)}, variables={"TMPDIR": OWN})
    yield told({TMP: ""})
    yield told({"/scratch": unreadable(13)}, variables={"TMPDIR": OWN})
    yield told({**CACHES, "/tmp/mindspore": folder(0o700, 1001)})
