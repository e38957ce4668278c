"""Runs `fix --cache-server` in a child that can be stopped, surprised and killed at every point.

The child asks at each change whether it may go on; in between the torturer does what it likes. An audit hook
of Python's own tells what it unlinks, by inode and right before, whatever the engine says of it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from tests.support import server
from tests.support.machine import Machine

from npudoctor.host import Host, Options
from npudoctor.host.clock import Clock
from npudoctor.host.records import Records
from npudoctor.host.users.identity import current_identity

AHEAD = 60.0  # seconds by which its clock is ahead, so that nothing is too young
MOMENT = 0.003  # what it waits where it would wait for seconds
PATIENCE = 60.0
GO, DIE = b"g", b"k"


class HastyClock(Clock):
    """Waits, but not for long."""

    def now(self) -> float:
        return time.time() + AHEAD

    def wait_until(self, steady: float) -> None:
        time.sleep(MOMENT)


class Patient(Machine):
    """A machine whose /tmp is the namespace's own."""

    def host(self, owners: Iterable[int] = (), euid: Optional[int] = None) -> Host:
        euid = os.geteuid() if euid is None else euid
        return Host(
            Options(tmp=str(self.tmp)),
            identity=current_identity(frozenset(owners)),
            clock=HastyClock(),
            records=Records(str(self.state), euid),
        )


@dataclass
class Ended:
    """How a run ended, what it answered, and what it unlinked."""

    status: int
    report: dict[str, Any] = field(default_factory=dict)
    unlinked: list[tuple[str, int, int, int]] = field(default_factory=list)
    points: list[str] = field(default_factory=list)

    @property
    def killed(self) -> bool:
        """Whether it was killed, by us."""
        return os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL

    @property
    def crashed(self) -> bool:
        """Whether it ended by itself and without an answer."""
        return not self.killed and not self.report


def operate(
    machine: Machine,
    uid: int,
    owners: Iterable[int],
    act: Callable[[str], bytes] = lambda point: GO,
    kill_after: Optional[float] = None,
) -> Ended:
    """One run as this user. `act` is called at each point and says whether it lives on; `kill_after` kills
    it at any time."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        try:
            _inside(machine, uid, owners, theirs)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(0)
    theirs.close()
    ended = Ended(-1)
    until = time.monotonic() + (PATIENCE if kill_after is None else kill_after)
    with ours, ours.makefile("rb", buffering=0) as lines:
        while select.select([ours], [], [], max(0.0, until - time.monotonic()))[0]:
            line = lines.readline()
            if not line:
                break
            _heard(json.loads(line), ended, ours, act)
        else:
            os.kill(pid, signal.SIGKILL)
        ended.status = os.waitpid(pid, 0)[1]
        for line in _rest(lines):
            with suppress(ValueError):
                _heard(json.loads(line), ended, ours, lambda point: GO)
    return ended


def _rest(lines: socket.SocketIO) -> list[bytes]:
    """What it had said before it was killed. That it left an answer of ours unread is told first, once."""
    try:
        return lines.readlines()
    except ConnectionResetError:
        return lines.readlines()


def _heard(told: dict[str, Any], ended: Ended, ours: socket.socket, act: Callable[[str], bytes]) -> None:
    if "point" in told:
        ended.points.append(told["point"])
        answer = act(told["point"])
        with suppress(OSError):
            ours.sendall(answer)
    elif "unlinks" in told:
        ended.unlinked.append(tuple(told["unlinks"]))
    else:
        ended.report = told


def _inside(machine: Machine, uid: int, owners: Iterable[int], link: socket.socket) -> None:
    if uid:
        server.become(uid)

    def tell(**what: object) -> None:
        link.sendall(json.dumps(what).encode() + b"\n")

    def at(point: str) -> None:
        tell(point=point)
        if link.recv(1) == DIE:
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("os.remove", "os.rmdir"):
            path, folder = arguments[0], arguments[1]
            with suppress(OSError):
                seen = os.stat(path, dir_fd=None if folder == -1 else folder, follow_symlinks=False)
                tell(unlinks=("folder" if event == "os.rmdir" else "file", seen.st_dev, seen.st_ino,
                              seen.st_mtime_ns))  # fmt: skip

    sys.addaudithook(heard)
    report = machine.fix(owners, at=at, planned=lambda items: at("planned"))
    actions = [
        {"message": done.item.finding.message, "status": done.outcome.status.value,
         "why": done.outcome.reason, "evidence": list(done.item.finding.evidence)}
        for done in report.actions
    ]  # fmt: skip
    tell(exit_code=report.exit_code, changed=report.changed, msg=report.msg, actions=actions)
