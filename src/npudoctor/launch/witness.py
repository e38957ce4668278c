"""Tells signals sent to npudoctor alone from those sent to the whole process group or batch job.

The kernel does not tell. So a second process in the same process group and control group receives every
signal and reports it: a signal that it got as well has reached the job, and is not forwarded.
It does not use `core.forked`: it lives as long as the job, without answer or deadline, and its line is a
socket whose closing reaches it as a signal.
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
from npudoctor.launch.inherited import ALL_SIGNALS

PATIENCE = 0.05  # seconds that a sender may need to signal one process after the other, as slurmstepd does
RECENT = 2.0  # seconds; an older report belongs to an earlier signal
_REPORT = struct.Struct("=iid")  # number, pid of the sender, time on the monotonic clock

SignalReport = tuple[int, int, float]


class Witness:
    """The second process; started while signals are blocked.

    When it cannot be started, or was killed, every signal counts as sent to npudoctor alone.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._reports: list[SignalReport] = []
        self._line: Optional[socket.socket] = None
        self._pid = 0
        own_end, witness_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._pid = os.fork()
        except OSError:
            own_end.close()
        else:
            if self._pid == 0:
                # The witness: report each signal, until npudoctor closes its end of the line.
                try:
                    # The name is only for people who look at ps: without it the witness works as well.
                    with suppress(OSError, ValueError):
                        take_process_name([os.fsencode(word) for word in command])
                    # Close inherited descriptors: a reader at the other end may wait for them to be closed.
                    line_descriptor = witness_end.fileno()
                    null = open_null()
                    for number in (0, 1, 2):
                        os.dup2(null, number)
                    for number in inherited_descriptors():
                        if number != line_descriptor:
                            # The number may be closed by now.
                            with suppress(OSError):
                                os.close(number)
                    # The closing of the line must arrive as a signal (SIGIO), as it waits for signals only.
                    fcntl.fcntl(witness_end, fcntl.F_SETOWN, os.getpid())
                    fcntl.fcntl(
                        witness_end,
                        fcntl.F_SETFL,
                        fcntl.fcntl(witness_end, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK,
                    )
                    while not _is_closed(witness_end):
                        info = signal.sigwaitinfo(ALL_SIGNALS)
                        # The buffer is full, as nobody asked for the reports yet: then a signal counts as
                        # ours alone.
                        with suppress(BlockingIOError):
                            witness_end.send(
                                _REPORT.pack(info.si_signo, info.si_pid, time.monotonic()),
                                socket.MSG_NOSIGNAL,
                            )
                finally:
                    os._exit(0)
            self._line = own_end
        witness_end.close()

    def has_received(self, number: int, sender: int) -> bool:
        """Whether the witness got the same signal from the same sender, or gets it within PATIENCE."""
        until = time.monotonic() + PATIENCE
        while self._line is not None:
            self._reports += self._receive_reports(self._line)
            oldest_time = time.monotonic() - RECENT
            self._reports = [report for report in self._reports if report[2] > oldest_time]
            for report in self._reports:
                if report[:2] == (number, sender):
                    self._reports.remove(report)
                    return True
            remaining_seconds = until - time.monotonic()
            if remaining_seconds <= 0 or not wait_until_ready(self._line.fileno(), remaining_seconds):
                break
        return False

    def close(self) -> None:
        """End the witness."""
        if self._line is not None:
            self._line.close()
            self._line = None
            with suppress(ChildProcessError):  # until it is reaped, its pid cannot be reused
                if not os.waitpid(self._pid, os.WNOHANG)[0]:
                    os.kill(self._pid, signal.SIGKILL)
                    os.waitpid(self._pid, 0)

    def _receive_reports(self, line: socket.socket) -> list[SignalReport]:
        reports = []
        # No further report is waiting.
        with suppress(BlockingIOError):
            while True:
                report = line.recv(_REPORT.size, socket.MSG_DONTWAIT)
                if not report:
                    self._line = None  # it was killed
                    break
                reports.append(_REPORT.unpack(report))
        return reports


def _is_closed(line: socket.socket) -> bool:
    """Whether the other end of the line is closed."""
    # No end of the line yet.
    with suppress(BlockingIOError):
        return not line.recv(1, socket.MSG_PEEK)
    return False


MARK = b"witness:"  # shown before the command in ps
# arg_start and arg_end, fields 48 and 49 of /proc/PID/stat (proc(5)), counted from the state behind the name.
_ARGUMENTS = slice(45, 47)


def take_process_name(command: Sequence[bytes]) -> None:
    """Give this process the name of the job, and its command line after MARK.

    Raises OSError or ValueError when the kernel does not allow it.
    """
    with open("/proc/self/comm", "wb") as file:
        # The kernel keeps 15 bytes of a name (TASK_COMM_LEN).
        file.write(command[0].rpartition(b"/")[2][:15])
    with open("/proc/self/stat", "rb") as file:
        start, end = (int(field) for field in file.read().rpartition(b")")[2].split()[_ARGUMENTS])
    words = b"\0".join([MARK, *command])[: end - start - 1]
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(words.ljust(end - start, b"\0"))
