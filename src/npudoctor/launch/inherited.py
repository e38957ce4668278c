"""What the caller gave us that the job must find as it was: signals, and variables before Python's touch."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress

from npudoctor.core.descriptors import inherited_descriptors, open_null
from npudoctor.core.frozen import dataclass

# Python ignores these from its start on, and nobody can tell any more whether its caller did: they go back to
# what the system does, as subprocess has it.
BY_PYTHON = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
EVERY = frozenset(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}


@dataclass(frozen=True)
class InheritedState:
    """The signals that the caller ignores and those that it blocks."""

    ignored: frozenset[int]
    blocked: frozenset[int]

    @classmethod
    def now(cls) -> InheritedState:
        """As they are, before anything of ours is changed."""
        ignored = {number for number in EVERY if signal.getsignal(number) is signal.SIG_IGN}
        return cls(frozenset(ignored) - BY_PYTHON, frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, ())))

    def hold(self) -> None:
        """From now on signals wait until they are taken; a fault of our own still ends us."""
        signal.pthread_sigmask(signal.SIG_BLOCK, EVERY)
        # An ignored SIGCHLD makes the system reap children by itself, and their status is lost.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def restore(self) -> None:
        """In the child, right before it becomes the job: nothing that arrives meanwhile is lost."""
        for number in EVERY:
            handler = signal.SIG_IGN if number in self.ignored else signal.SIG_DFL
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)


def release_descriptors() -> None:
    """Close what the caller handed on, once the job has it: somebody may wait for the job to close it. Only
    standard error stays ours, too."""
    with suppress(OSError):  # where no descriptor is left
        nothing = open_null()
        for number in (0, 1):
            os.dup2(nothing, number, inheritable=False)
        os.close(nothing)
    for number in inherited_descriptors():
        with suppress(OSError):
            if os.get_inheritable(number):
                os.close(number)


def original_variables(ours: Mapping[str, str]) -> dict[str, str]:
    """Our variables as the caller set them: in the C locale Python changes LC_CTYPE before it starts."""
    variables = dict(ours)
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return variables
    before = [entry[len("LC_CTYPE=") :] for entry in entries if entry.startswith(b"LC_CTYPE=")]
    variables.pop("LC_CTYPE", None)
    if before:
        variables["LC_CTYPE"] = before[0].decode("utf-8", "surrogateescape")
    return variables
