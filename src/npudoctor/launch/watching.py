"""Acts in place of the job until it ends: forwards signals, stops and continues with it, returns its status.

npudoctor stays in the caller's process group with the job, so that shells and batch systems see one job. A
signal of the terminal reaches the job directly; one sent to npudoctor alone is forwarded.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Optional

from npudoctor.host.fs.files import LocalDisk
from npudoctor.host.process.processes import Processes
from npudoctor.launch.inherited import ALL_SIGNALS
from npudoctor.launch.witness import Witness

SI_KERNEL = 0x80  # SI_KERNEL: si_code of signals of a terminal, but also of alarm() and the like
_TO_THE_GROUP = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGWINCH
)  # fmt: skip
# Signals with which job control stops a job; a SIGSTOP may come from a person who inspects the job.
_JOB_CONTROL = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class JobWatch:
    """Watches one job that runs as a child. Signals have been blocked since before it was started."""

    def __init__(self, job: int, witness: Witness) -> None:
        self._job, self._witness = job, witness
        self._processes = Processes(LocalDisk())

    def wait_for_end(self) -> int:
        """Wait for the end of the job; returns its exit code, 128 + the number when a signal ended it."""
        while True:
            info = signal.sigwaitinfo(ALL_SIGNALS)
            if info.si_signo != signal.SIGCHLD and self._is_for_job(info):
                self._send_signal(info.si_signo)
            # After every signal: sigwaitinfo delivers lower numbers first, so that a stream of them hides
            # SIGCHLD.
            ended = self._reap_children()
            if ended is not None:
                return ended

    def _reap_children(self) -> Optional[int]:
        """Reap all children; returns the exit code of the job, None while it runs.

        As pid 1 of a container npudoctor inherits all orphans.
        """
        ended = stopped = None
        # No child is left.
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
            self._stop_with_job(stopped)
        return ended

    def _stop_with_job(self, number: int) -> None:
        """Stop npudoctor like the job, so that the shell sees it; continue the job when npudoctor is
        continued."""
        if number not in _JOB_CONTROL and not (_is_in_foreground() and self._has_waiting_shell()):
            return  # the sender stopped only the job, and will continue only the job
        if not self._is_stopped():
            return
        signal.sigtimedwait({signal.SIGCONT}, 0)
        if number in _JOB_CONTROL:
            # They have the default action; the kernel ignores them in an orphaned process group, where no
            # shell could continue us. When the terminal's own signal is pending already, the two count as
            # one.
            os.kill(os.getpid(), number)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
            signal.pthread_sigmask(signal.SIG_BLOCK, {number})
        else:
            os.kill(os.getpid(), signal.SIGSTOP)
        if signal.sigtimedwait({signal.SIGCONT}, 0) and self._is_stopped():
            self._send_signal(signal.SIGCONT)

    def _is_stopped(self) -> bool:
        now = self._processes.read_now(self._job)
        return now is not None and now.state == "T"

    def _is_for_job(self, info: signal.struct_siginfo) -> bool:
        """Whether a signal that npudoctor got did not reach the job directly, and must be forwarded."""
        try:
            shares_group = os.getpgid(self._job) == os.getpgrp()
        except ProcessLookupError:
            shares_group = True
        if not shares_group:
            return not self._is_from_job(info.si_pid)
        if info.si_code == SI_KERNEL:
            # When a terminal hangs up (a lost connection), only the leader of its session gets SIGHUP and
            # SIGCONT, so that the job must get them from us. The other signals go to the whole group.
            if info.si_signo in (signal.SIGHUP, signal.SIGCONT):
                return os.getsid(0) == os.getpid()
            return info.si_signo not in _TO_THE_GROUP
        if self._is_from_job(info.si_pid):
            return False
        return not self._witness.has_received(info.si_signo, info.si_pid)

    def _has_waiting_shell(self) -> bool:
        """Whether a process of this session outside our group is our ancestor: a shell that can continue
        us."""
        pid, group = os.getpid(), os.getpgrp()
        # The process ended between two calls.
        with suppress(OSError):
            while (process := self._processes.read_now(pid)) is not None and process.parent > 0:
                pid = process.parent
                if os.getpgid(pid) != group:
                    return os.getsid(pid) == os.getsid(0)
        return False

    def _is_from_job(self, sender: int) -> bool:
        """Whether the job or one of its descendants sent a signal, to its own group or to its parent."""
        for _generation in range(100):
            if sender == self._job:
                return True
            process = self._processes.read_now(sender) if sender > 1 else None
            if process is None or process.parent <= 1:
                return False
            sender = process.parent
        return False

    def _send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):  # it ended, or runs as another user (setuid)
            os.kill(self._job, number)


def _is_in_foreground() -> bool:
    """Whether this process group is the foreground group of the terminal."""
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
