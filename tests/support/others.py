"""The same question asked by another user, from another pid namespace, or where /proc hides processes.

Each forks; what is asked runs in the child and its answer comes back. The modules must be loaded
before, as another user need not be able to read them.
"""

from __future__ import annotations

import os
import pickle
import traceback
from pathlib import Path
from typing import Callable, TypeVar

from . import ipc

T = TypeVar("T")


def forked(ask: Callable[[], T]) -> T:
    """The answer of a child; what it raised is raised here."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            try:
                told = pickle.dumps((True, ask()))
            except BaseException:
                told = pickle.dumps((False, traceback.format_exc()))
            with open(writing, "wb") as pipe:
                pipe.write(told)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    answered, answer = pickle.loads(told)  # noqa: S301  (from our own child)
    if not answered:
        raise AssertionError(answer)
    return answer  # type: ignore[no-any-return]


def as_user(uid: int, ask: Callable[[], T]) -> T:
    """Ask as this user."""

    def asking() -> T:
        become(uid)
        return ask()

    return forked(asking)


def become(uid: int) -> None:
    """Give up all rights but this user's."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def let_through(folder: Path) -> None:
    """Open a folder of the test's, and all above it, for others to pass: pytest closes its own, and with
    pytest-xdist there is one more of them."""
    for one in (folder, *folder.parents):
        found = one.stat()
        if found.st_uid == os.geteuid() and found.st_mode & 0o011 != 0o011:
            one.chmod(found.st_mode & 0o7777 | 0o011)


def in_pid_namespace(ask: Callable[[], T]) -> T:
    """Ask where only the asker is seen: the rest of the machine has other pids, or none."""

    def outer() -> T:
        ipc.unshare("pid", "mnt")
        return forked(inner)

    def inner() -> T:
        ipc.mount_proc()
        return ask()

    return forked(outer)


def with_hidden_processes(level: int, uid: int, ask: Callable[[], T]) -> T:
    """Ask as this user under hidepid=LEVEL."""

    def asking() -> T:
        ipc.unshare("mnt")
        ipc.mount_proc(f"hidepid={level}")
        become(uid)
        return ask()

    return forked(asking)
