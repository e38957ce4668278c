"""Runs a piece of work in namespaces of its own, which end with it: nothing is left, whoever is killed.

It forks by itself and not by `core.forked`: the first child asks us for its users half way, the second is the
first process of its pid namespace, and both stay until the work is done.
"""

from __future__ import annotations

import errno
import os
import select
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Callable

from npudoctor.core.messages import _, strerror
from npudoctor.rehearsal import kernel

INNER = ("mnt", "pid", "ipc", "net", "uts", "cgroup")
LACKING = 2  # the status of work that could not begin, with its reason in the pipe
_REASON = 4096  # bytes
_ASKS = b"\0"  # the child wants its users; a reason never begins so


class Lacking(Exception):
    """What a rehearsal needs and this machine does not have or allow; one line."""


def run_apart(work: Callable[[], int]) -> int:
    """The work's status, from a process that is the first of its pid namespace.

    Raises Lacking where the kernel does not allow the namespaces, or where the work raises it.
    """
    asking, answering = os.pipe()
    telling, report = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(telling)
        os.close(answering)
        kernel.die_with_parent()
        if os.getppid() != parent:  # it ended before we said so
            os._exit(LACKING)
        _outer(work, asking, report)
    os.close(report)
    os.close(asking)
    try:
        reason = _accompany(pid, answering, telling)
    except BaseException:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # our own child; all that it started ends with it
        os.waitpid(pid, 0)
        raise
    status = os.waitpid(pid, 0)[1]
    if reason:
        raise Lacking(reason)
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _accompany(pid: int, answering: int, telling: int) -> str:
    """Give the child its users, and hear until its end why it could not begin; empty where it could."""
    with open(telling, "rb") as pipe, open(answering, "wb", buffering=0) as answer:
        first = pipe.read(1)
        if first == _ASKS:
            first = b""
            _map_users(pid)
            with suppress(BrokenPipeError):
                answer.write(b"m")
        return (first + pipe.read(_REASON)).decode("utf-8", "replace")


def _map_users(pid: int) -> None:
    """As root: everybody, each as himself. Who is not root may map only himself, from inside."""
    if os.geteuid() != 0:
        return
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/self/{name}", encoding="ascii") as file:
            ranges = [line.split() for line in file]
        lines = "".join(f"{first} {first} {count}\n" for first, _outside, count in ranges)
        with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
            file.write(lines)


def _outer(work: Callable[[], int], asking: int, report: int) -> None:
    """In the child: enter the namespaces, and let a child of ours be their first process. Never returns."""
    status = LACKING
    try:
        user, group = os.geteuid(), os.getegid()
        kernel.unshare("user")
        os.write(report, _ASKS)
        os.read(asking, 1)
        if user != 0:
            for name, line in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                    file.write(line)
        kernel.unshare(*INNER)
        alive, held = os.pipe()  # of the second end this process alone is the holder
        pid = os.fork()
        if pid == 0:
            os.close(held)
            _first(work, report, alive)
        os.close(report)
        ended = os.waitpid(pid, 0)[1]
        status = 128 + os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended)
    except BaseException as error:
        _tell(report, error)
    finally:
        os._exit(status)


def _first(work: Callable[[], int], report: int, alive: int) -> None:
    """The first process of the new pid namespace: when it ends, the kernel kills all others in it."""
    status = LACKING
    try:
        kernel.die_with_parent()
        if select.select([alive], [], [], 0)[0]:  # it ended before we said so; nobody's pid is seen from here
            os._exit(LACKING)
        status = work()
    except BaseException as error:
        _tell(report, error)
    finally:
        os._exit(status)


def _tell(report: int, error: BaseException) -> None:
    """Why it could not begin, or what went wrong, for the process that prints."""
    text = str(error)
    if isinstance(error, OSError) and error.errno:
        full = error.errno == errno.ENOSPC
        why = _("a limit in /proc/sys/user is reached") if full else strerror(error.errno)
        text = _("the kernel does not allow the private namespaces: {why}", why=why)
        text += f" ({error.filename})" if error.filename else ""
    elif not isinstance(error, Lacking):
        text = f"{type(error).__name__}: {error}"
    with suppress(OSError):
        os.write(report, text.encode()[:_REASON] or b"?")


def name_kinds(names: Sequence[str] = INNER) -> str:
    """The kinds, for the line that says how a machine is made."""
    return ", ".join(("user", *names))
