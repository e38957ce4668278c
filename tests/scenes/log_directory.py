"""Machines on which log-directory says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from npudoctor.checks.cann.log_directory import log_directory
from npudoctor.testing import Asked, Content, folder, unreadable

from .driver_machine import asked, cann

HOME = "/home/alice"
ALICE: dict[str, Any] = {"euid": 1000, "user": "alice"}
OWN_HOME: dict[str, Content] = {HOME: folder(0o700, 1000)}


def crowded(count: int, where: str = f"{HOME}/ascend/log") -> dict[str, Content]:
    """A folder of logs with so many files."""
    return {
        where: folder(0o750, 1000),
        f"{where}/plog": folder(0o750, 1000),
        **{f"{where}/plog/plog-{number}_1.log": "" for number in range(count)},
    }


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield asked(log_directory, **ALICE)
    yield asked(log_directory, cann(), {**OWN_HOME, f"{HOME}/ascend": folder()}, **ALICE)
    yield asked(log_directory, cann(), {**OWN_HOME, f"{HOME}/ascend": ""}, **ALICE)
    closed: dict[str, Content] = {"/closed": unreadable()}
    for path in ("/var/log/npu", "logs", "/closed/log"):
        yield asked(
            log_directory, cann(), OWN_HOME, closed, variables={"ASCEND_PROCESS_LOG_PATH": path}, **ALICE
        )
    yield asked(log_directory, cann(), OWN_HOME, crowded(20_001), **ALICE)
    mounted: dict[str, Content] = {"/proc/self/mountinfo": "21 1 8:1 / / ro - overlay overlay ro\n"}
    yield asked(log_directory, cann(), OWN_HOME, mounted, **ALICE)
    mounted = {"/proc/self/mountinfo": "21 1 0:40 / / rw - nfs4 server:/root rw\n"}
    yield asked(log_directory, cann(), mounted)
