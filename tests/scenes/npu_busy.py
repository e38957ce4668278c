"""Machines on which npu-busy says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.device.npu_busy import npu_busy
from npudoctor.testing import OUR_PID, Asked, Content, ask, fake_host, process_files

from .npu_machine import CONTAINER, screen, told

BUSY = screen("c_910b4_25.0.1_busy")
OLD = screen("b_910a_21.0.3")
LATE = screen("f_910b3_26.0.0_container")
SELF = OUR_PID
USERS: dict[str, Content] = {"/etc/passwd": "root:x:0:0::/root:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\n"}


def me(session: int = 500, group: str = "/user.slice/user-0.slice/session-1.scope") -> dict[str, Content]:
    """Our own process, below a shell."""
    return {**one(SELF, 500, session, group=group), **one(500, 1, 500, name="bash", group=group)}


def one(
    pid: int, parent: int = 1, session: int = 1, *, name: str = "python3", uid: int = 0, group: str = "/"
) -> dict[str, Content]:
    """A process with its session and control group."""
    files = process_files(pid, name, parent=parent, uid=uid)
    stat = str(files[f"/proc/{pid}/stat"]).split(" ")
    stat[5] = str(session)
    return {**files, f"/proc/{pid}/stat": " ".join(stat), f"/proc/{pid}/cgroup": f"0::{group}\n"}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(npu_busy, fake_host())
    yield told(npu_busy, BUSY, USERS, me(), one(71001, uid=1001))
    yield told(npu_busy, screen("c_910b2_24.1.0_idle").replace("3320 ", "31877"), count=8)
    yield told(npu_busy, BUSY, me(), one(71001, 600, 500))
    yield told(npu_busy, OLD, count=4)
    yield told(npu_busy, LATE, CONTAINER, me(), one(77))
    without_core = LATE.replace("| 0                    0    / 0 ", "|                      0    / 0 ")
    yield told(npu_busy, without_core, CONTAINER)
    yield told(npu_busy, LATE.replace("5990", "90  ").replace("9403", "3503"), CONTAINER, me())
    yield told(npu_busy, BUSY.replace("910B4", "995Z9"))
    yield told(npu_busy, screen("c_910b2_24.1.0_idle").replace("| 0     910B2", "| 9     910B2"), count=3)
