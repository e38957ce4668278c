"""Describes the machine beside the checks: a hung interpreter must not hold the report."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Optional

from npudoctor.core.model import HostFacts, Target
from npudoctor.core.threads import start_thread
from npudoctor.core.waiting import GRACE, wait
from npudoctor.host import Host
from npudoctor.runner.reporting import describe_host, describe_target, minimal_host, minimal_target

BIRTH = 1.0  # seconds in which a thread must have begun, after all checks were asked


class Description:
    """The machine described in a thread of its own: a hung interpreter must not hold the report."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._machine: Optional[HostFacts] = None
        self._target: Optional[Target] = None
        self._done = threading.Event()
        self._begun = threading.Event()
        with contextlib.suppress(RuntimeError, MemoryError):  # the machine has no room for another thread
            self._begun = start_thread(self._describe)

    def _describe(self) -> None:
        # What fails here is asked by checks too, which say so in a row of theirs.
        with contextlib.suppress(Exception):
            self._machine = describe_host(self._host)
        with contextlib.suppress(Exception):
            self._target = describe_target(self._host)
        self._done.set()

    def by(self, until: float) -> tuple[HostFacts, Target]:
        """The description, or by the deadline what can be said without asking anything."""
        wait(self._begun, min(time.monotonic() + BIRTH, until))
        if self._begun.is_set():
            wait(self._done, until + GRACE)
        return self._machine or minimal_host(self._host), self._target or minimal_target(self._host)
