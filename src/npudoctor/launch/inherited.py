"""State of the caller that the job must inherit unchanged: signals, descriptors, and variables."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress

from npudoctor.core.descriptors import inherited_descriptors, open_null
from npudoctor.core.frozen import dataclass

# Python ignores these at its start, so that it is unknown whether the caller did: the job gets the default,
# as with subprocess (restore_signals).
IGNORED_BY_PYTHON = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
ALL_SIGNALS = frozenset(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}


@dataclass(frozen=True)
class InheritedState:
    """The numbers of the signals that the caller ignores, and of those that it blocks."""

    ignored: frozenset[int]
    blocked: frozenset[int]

    @classmethod
    def capture(cls) -> InheritedState:
        """The current state; call it before npudoctor changes any signal."""
        ignored = {number for number in ALL_SIGNALS if signal.getsignal(number) is signal.SIG_IGN}
        return cls(
            frozenset(ignored) - IGNORED_BY_PYTHON, frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        )

    def block_signals(self) -> None:
        """Block all signals, so that they stay pending; a fault such as SIGSEGV still ends the process."""
        signal.pthread_sigmask(signal.SIG_BLOCK, ALL_SIGNALS)
        # With SIGCHLD ignored the kernel reaps children itself, and their status is lost.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def restore(self) -> None:
        """Restore the caller's state, in the child right before execve; pending signals then reach the
        job."""
        for number in ALL_SIGNALS:
            handler = signal.SIG_IGN if number in self.ignored else signal.SIG_DFL
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)


def release_descriptors() -> None:
    """Close the inherited descriptors but standard error, once the job has them.

    A reader at the other end waits for the job to close them, and we would keep them open.
    """
    with suppress(OSError):  # ulimit -n leaves no descriptor for /dev/null
        null = open_null()
        for number in (0, 1):
            os.dup2(null, number, inheritable=False)
        os.close(null)
    for number in inherited_descriptors():
        # The number may be closed by now: it is of the listing of /proc/self/fd itself.
        with suppress(OSError):
            if os.get_inheritable(number):
                os.close(number)


def original_variables(variables_now: Mapping[str, str]) -> dict[str, str]:
    """The variables as the caller set them: in the C locale Python sets LC_CTYPE at its start (PEP 538)."""
    variables = dict(variables_now)
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return variables
    original_values = [entry[len("LC_CTYPE=") :] for entry in entries if entry.startswith(b"LC_CTYPE=")]
    variables.pop("LC_CTYPE", None)
    if original_values:
        variables["LC_CTYPE"] = original_values[0].decode("utf-8", "surrogateescape")
    return variables
