"""Runs work in new namespaces that end with it: nothing is left behind, whichever process is killed.

It does not use `core.forked`: the first child asks the parent for its user map half way, the second one is
the first process of its pid namespace, and both live until the work is done.
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
CANNOT_BEGIN = 2  # the exit code of work that could not begin; its reason is in the pipe
_REASON = 4096  # bytes of a reason
_ASKS = b"\0"  # the child asks for its user map; a reason never begins with it


class CannotRehearse(Exception):
    """The machine lacks or forbids something that a rehearsal needs; str() of it is one line for people."""


def run_in_namespaces(work: Callable[[], int]) -> int:
    """Run the work in the first process of a new pid namespace; returns its exit code, -N after signal N.

    Raises CannotRehearse when the kernel does not allow the namespaces, or when the work raises it.
    """
    asking, answering = os.pipe()
    telling, report = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(telling)
        os.close(answering)
        kernel.die_with_parent()
        if os.getppid() != parent:  # the parent ended before prctl: no signal will come
            os._exit(CANNOT_BEGIN)
        _enter_namespaces(work, asking, report)
    os.close(report)
    os.close(asking)
    try:
        reason = _attend_child(pid, answering, telling)
    except BaseException:
        # It ended by itself.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # ends the whole pid namespace with it
        os.waitpid(pid, 0)
        raise
    status = os.waitpid(pid, 0)[1]
    if reason:
        raise CannotRehearse(reason)
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _attend_child(pid: int, answering: int, telling: int) -> str:
    """Map the users of the child, and wait for its end; returns why it could not begin, "" when it could."""
    with open(telling, "rb") as pipe, open(answering, "wb", buffering=0) as answer:
        first = pipe.read(1)
        if first == _ASKS:
            first = b""
            _map_users(pid)
            # The child was killed while it waited for this.
            with suppress(BrokenPipeError):
                answer.write(b"m")
        return (first + pipe.read(_REASON)).decode("utf-8", "replace")


def _map_users(pid: int) -> None:
    """As root map all users to themselves. Another user may map only himself, which the child does itself."""
    if os.geteuid() != 0:
        return
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/self/{name}", encoding="ascii") as file:
            ranges = [line.split() for line in file]
        lines = "".join(f"{first} {first} {count}\n" for first, _outside, count in ranges)
        with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
            file.write(lines)


def _enter_namespaces(work: Callable[[], int], asking: int, report: int) -> None:
    """In the child: enter the namespaces, and fork their first process. Never returns."""
    status = CANNOT_BEGIN
    try:
        user, group = os.geteuid(), os.getegid()
        kernel.unshare("user")
        os.write(report, _ASKS)
        os.read(asking, 1)
        if user != 0:
            for name, line in (
                # The kernel requires this before another user than root writes gid_map (user_namespaces(7)).
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                    file.write(line)
        kernel.unshare(*INNER)
        alive_reader, alive_writer = (
            os.pipe()
        )  # only this process keeps the writing end, which closes when it dies
        pid = os.fork()
        if pid == 0:
            os.close(alive_writer)
            _run_first_process(work, report, alive_reader)
        os.close(report)
        ended = os.waitpid(pid, 0)[1]
        status = 128 + os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended)
    except BaseException as error:
        _report_error(report, error)
    finally:
        os._exit(status)


def _run_first_process(work: Callable[[], int], report: int, alive: int) -> None:
    """In the first process of the new pid namespace: when it ends, the kernel kills all others in it."""
    status = CANNOT_BEGIN
    try:
        kernel.die_with_parent()
        # The parent ended before prctl. getppid() is 0 in a new pid namespace, so that a pipe tells.
        if select.select([alive], [], [], 0)[0]:
            os._exit(CANNOT_BEGIN)
        status = work()
    except BaseException as error:
        _report_error(report, error)
    finally:
        os._exit(status)


def _report_error(report: int, error: BaseException) -> None:
    """Send the reason why the work could not begin, or its error, to the process that prints."""
    text = str(error)
    if isinstance(error, OSError) and error.errno:
        is_limit = error.errno == errno.ENOSPC
        why = _("a limit in /proc/sys/user is reached") if is_limit else strerror(error.errno)
        text = _("the kernel does not allow the private namespaces: {why}", why=why)
        text += f" ({error.filename})" if error.filename else ""
    elif not isinstance(error, CannotRehearse):
        text = f"{type(error).__name__}: {error}"
    # The process that reads is gone.
    with suppress(OSError):
        os.write(report, text.encode()[:_REASON] or b"?")


def list_kinds(names: Sequence[str] = INNER) -> str:
    """The kinds of namespaces as text, for the line that says how the machine is made."""
    return ", ".join(("user", *names))
