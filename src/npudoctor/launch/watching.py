"""Stands in for the job until it ends: passes signals on, stops and goes on with it, returns its status.

We stay in the caller's process group with the job, so that shells and batch systems see one job. What a
terminal sends reaches the job by itself; what was sent to us alone we pass on.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Optional

from npudoctor.host.fs.files import LocalDisk
from npudoctor.host.process.processes import Processes
from npudoctor.launch.inherited import EVERY
from npudoctor.launch.witness import Witness

KERNEL = 0x80  # si_code of what a terminal sends, but also of alarm() and the like
_TO_THE_GROUP = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGWINCH
)  # fmt: skip
# A shell's job control stops a job with these; a lone SIGSTOP may come from somebody inspecting the job.
_CONTROL = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class JobWatch:
    """One job that runs as our child. Signals are held (Given.hold) since before it was started."""

    def __init__(self, job: int, witness: Witness) -> None:
        self._job, self._witness = job, witness
        self._processes = Processes(LocalDisk())

    def status(self) -> int:
        """Wait for the end of the job; its exit status, 128 and the number when a signal ended it."""
        while True:
            info = signal.sigwaitinfo(EVERY)
            if info.si_signo != signal.SIGCHLD and self._is_for_job(info):
                self._send(info.si_signo)
            # Whatever came: a signal of a lower number that somebody sends without a pause hides SIGCHLD.
            ended = self._look()
            if ended is not None:
                return ended

    def _look(self) -> Optional[int]:
        """Take in what happened to our children. As the first process of a container all orphans are ours."""
        ended = stopped = None
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if not pid:
                    break
                if pid == self._job and os.WIFSTOPPED(status):
                    stopped = os.WSTOPSIG(status)
                elif pid == self._job:
                    ended = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        if ended is None and stopped is not None:
            self._stop_too(stopped)
        return ended

    def _stop_too(self, number: int) -> None:
        """The job was stopped: so are we, that the shell sees it; and the job goes on when we do."""
        if number not in _CONTROL and not (_in_foreground() and self._shell_waits()):
            return  # whoever stopped only the job will continue only the job
        if not self._is_stopped():
            return
        signal.sigtimedwait({signal.SIGCONT}, 0)
        if number in _CONTROL:
            # Python leaves them as the system has them. It passes over them where no shell would continue us.
            # One that the terminal sent may be waiting already: both together stop us only once.
            os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
            signal.pthread_sigmask(signal.SIG_BLOCK, {number})
        else:
            os.kill(os.getpid(), signal.SIGSTOP)
        if signal.sigtimedwait({signal.SIGCONT}, 0) and self._is_stopped():
            self._send(signal.SIGCONT)

    def _is_stopped(self) -> bool:
        now = self._processes.read_now(self._job)
        return now is not None and now.state == "T"

    def _is_for_job(self, info: signal.struct_siginfo) -> bool:
        """Whether a signal that we got did not reach the job by itself."""
        try:
            beside_us = os.getpgid(self._job) == os.getpgrp()
        except ProcessLookupError:
            beside_us = True
        if not beside_us:
            return not self._from_job(info.si_pid)
        if info.si_code == KERNEL:
            # When a terminal goes away (a connection that is lost), only the first process of its session is
            # told: the job must hear it from us. Of the rest our whole group gets what the kernel sends us.
            if info.si_signo in (signal.SIGHUP, signal.SIGCONT):
                return os.getsid(0) == os.getpid()
            return info.si_signo not in _TO_THE_GROUP
        if self._from_job(info.si_pid):
            return False
        return not self._witness.has_received(info.si_signo, info.si_pid)

    def _shell_waits(self) -> bool:
        """Whether somebody of our session started our group, and can continue it."""
        pid, group = os.getpid(), os.getpgrp()
        with suppress(OSError):
            while (process := self._processes.read_now(pid)) is not None and process.parent > 0:
                pid = process.parent
                if os.getpgid(pid) != group:
                    return os.getsid(pid) == os.getsid(0)
        return False

    def _from_job(self, sender: int) -> bool:
        """Whether the job, or one that it started, sent it: to its own group, or to whoever started it."""
        for _generation in range(100):
            if sender == self._job:
                return True
            process = self._processes.read_now(sender) if sender > 1 else None
            if process is None or process.parent <= 1:
                return False
            sender = process.parent
        return False

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):  # it ended, or became another user's
            os.kill(self._job, number)


def _in_foreground() -> bool:
    """Whether our group is the one that has the terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
