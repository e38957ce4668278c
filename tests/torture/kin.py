"""Processes of a scene that are not programs of their own: they serve and die, attach, hold, replace."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional

from tests.support import ipc, server

LAST_PID = "/proc/sys/kernel/ns_last_pid"
MAGIC = b"this client's rows"
PATIENCE = 10.0


@dataclass
class Child:
    """A forked process: it did its work, said what it made, and stays."""

    pid: int
    said: dict[str, Any]
    pipe: int = -1

    def ask(self) -> bytes:
        """A word to a child that listens, and its answer."""
        os.write(self.pipe, b"?")
        heard = select.select([self.pipe], [], [], PATIENCE)[0]
        return os.read(self.pipe, 64) if heard else b""

    def kill(self, reap: bool = True) -> None:
        """As by kill -9; not reaped it stays a zombie."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        if reap:
            self.reap()

    def reap(self) -> None:
        """Let go of it."""
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1


def child(
    work: Callable[[], dict[str, Any]], uid: int = 0, then: Optional[Callable[[int], None]] = None
) -> Child:
    """Fork; the child becomes this user, works, tells, then stays until killed."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            os.setsid()
            os.umask(0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if uid:
                server.become(uid)
            theirs.sendall(json.dumps(work()).encode() + b"\n")
            if then:
                then(theirs.fileno())
            while True:
                signal.pause()
        except BaseException as error:
            with suppress(OSError):
                theirs.sendall(json.dumps({"error": repr(error)}).encode() + b"\n")
        finally:
            os._exit(0)
    theirs.close()
    ours.settimeout(PATIENCE)
    with ours.makefile("rb") as lines:
        said = json.loads(lines.readline() or b'{"error": "said nothing"}')
    ours.settimeout(None)
    return Child(pid, said, ours.detach())


def served(words: list[str], uid: int = 0) -> Child:
    """A cache server's work, by the suite's stand-in, in a child of ours: fit only to be killed, as a living
    one would be known by its program."""

    def work() -> dict[str, Any]:
        listener, made = server.serve(server.Options(words))
        globals()["_kept"] = listener  # until the process ends
        return made

    return child(work, uid)


def client(shmid: int, uid: int = 0) -> Child:
    """A process that attaches and writes into the segment; asked, it tells what it reads there."""
    address = [0]

    def work() -> dict[str, Any]:
        address[0] = ipc.attach(shmid)
        ctypes.memmove(address[0], MAGIC, len(MAGIC))
        return {"at": time.monotonic()}

    def answer(pipe: int) -> None:
        while os.read(pipe, 1):
            os.write(pipe, ctypes.string_at(address[0], len(MAGIC)))

    return child(work, uid, answer)


def holder(path: Path, uid: int = 0) -> Child:
    """A process that has a file open."""

    def work() -> dict[str, Any]:
        return {"descriptor": os.open(path, os.O_RDONLY)}

    return child(work, uid)


def segment(key: int, size: int, mode: int, uid: int = 0) -> Child:
    """A process that made a segment, to which it is not attached."""
    return child(lambda: {"shmid": ipc.make(key, size, mode)}, uid)


def reborn(pid: int) -> Optional[Child]:
    """A new process with a dead one's pid; None where it is taken. Later ones are numbered on."""
    last = Path(LAST_PID)
    try:
        before = last.read_text(encoding="ascii")
        last.write_text(str(pid - 1), encoding="ascii")
    except OSError:
        return None  # a kernel without it
    new = child(dict)
    last.write_text(before, encoding="ascii")
    if new.pid == pid:
        return new
    new.kill()
    return None


@contextmanager
def as_user(uid: int) -> Iterator[None]:
    """This thread's file system rights are that user's for a while."""
    libc = ctypes.CDLL(None)
    libc.setfsgid(uid)
    libc.setfsuid(uid)
    try:
        yield
    finally:
        libc.setfsuid(0)
        libc.setfsgid(0)


def began(pid: int) -> str:
    """When a process began, in the kernel's ticks: with its pid it is known by that. "" when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]
