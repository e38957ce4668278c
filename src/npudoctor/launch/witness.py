"""Tells a signal that was sent to us alone from one that our whole group, or all of a batch job, was sent.

The kernel does not say which it was. So a process like us, of the same group and the same control group,
takes every signal and reports it. A signal that it got too has reached the job, and we do not pass it on.
It forks by itself and not by `core.forked`: it stays as long as the job, with no answer and no deadline, and
its line is a socket, whose end reaches it as a signal.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Optional

from npudoctor.core.descriptors import inherited_descriptors, open_null, wait_until_ready
from npudoctor.launch.inherited import EVERY

PATIENCE = 0.05  # seconds that a sender that signals process by process (slurmstepd) may need
RECENT = 2.0  # what it got longer ago was another signal
_REPORT = struct.Struct("=iid")  # number, sender, when

SignalReport = tuple[int, int, float]


class Witness:
    """The process beside us; made while signals are held. Without it every signal counts as ours alone."""

    def __init__(self, command: Sequence[str]) -> None:
        self._seen: list[SignalReport] = []
        self._line: Optional[socket.socket] = None
        self._pid = 0
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._pid = os.fork()
        except OSError:
            ours.close()
        else:
            if self._pid == 0:
                # The witness: reports what it gets, until our end of the line is closed.
                try:
                    with suppress(OSError, ValueError):
                        take_name([os.fsencode(word) for word in command])
                    # What the caller handed on is not the witness's to keep open: somebody may wait for its
                    # end.
                    line = its.fileno()
                    nothing = open_null()
                    for number in (0, 1, 2):
                        os.dup2(nothing, number)
                    for number in inherited_descriptors():
                        if number != line:
                            with suppress(OSError):
                                os.close(number)
                    # The end of the line must arrive as a signal, as signals are all that it waits for.
                    fcntl.fcntl(its, fcntl.F_SETOWN, os.getpid())
                    fcntl.fcntl(
                        its, fcntl.F_SETFL, fcntl.fcntl(its, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK
                    )
                    while not _is_closed(its):
                        info = signal.sigwaitinfo(EVERY)
                        with suppress(BlockingIOError):
                            its.send(
                                _REPORT.pack(info.si_signo, info.si_pid, time.monotonic()),
                                socket.MSG_NOSIGNAL,
                            )
                finally:
                    os._exit(0)
            self._line = ours
        its.close()

    def has_received(self, number: int, sender: int) -> bool:
        """Whether the witness got this signal too, or does within a moment."""
        until = time.monotonic() + PATIENCE
        while self._line is not None:
            self._seen += self._reports(self._line)
            recent = time.monotonic() - RECENT
            self._seen = [report for report in self._seen if report[2] > recent]
            for report in self._seen:
                if report[:2] == (number, sender):
                    self._seen.remove(report)
                    return True
            left = until - time.monotonic()
            if left <= 0 or not wait_until_ready(self._line.fileno(), left):
                break
        return False

    def close(self) -> None:
        """End it."""
        if self._line is not None:
            self._line.close()
            self._line = None
            with suppress(ChildProcessError):  # as long as it is our child, its pid is nobody else's
                if not os.waitpid(self._pid, os.WNOHANG)[0]:
                    os.kill(self._pid, signal.SIGKILL)
                    os.waitpid(self._pid, 0)

    def _reports(self, line: socket.socket) -> list[SignalReport]:
        reports = []
        with suppress(BlockingIOError):
            while True:
                report = line.recv(_REPORT.size, socket.MSG_DONTWAIT)
                if not report:
                    self._line = None  # somebody killed it
                    break
                reports.append(_REPORT.unpack(report))
        return reports


def _is_closed(line: socket.socket) -> bool:
    """Whether the other end is closed: the witness asks at each turn."""
    with suppress(BlockingIOError):
        return not line.recv(1, socket.MSG_PEEK)
    return False


MARK = b"witness:"  # for people who look at ps
_ARGUMENTS = slice(45, 47)  # where the command line begins and ends, after the name in /proc/PID/stat


def take_name(command: Sequence[bytes]) -> None:
    """Give this process the job's name, and its command line behind a mark. OSError, ValueError: no."""
    with open("/proc/self/comm", "wb") as file:
        file.write(command[0].rpartition(b"/")[2][:15])
    with open("/proc/self/stat", "rb") as file:
        start, end = (int(field) for field in file.read().rpartition(b")")[2].split()[_ARGUMENTS])
    words = b"\0".join([MARK, *command])[: end - start - 1]
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(words.ljust(end - start, b"\0"))
