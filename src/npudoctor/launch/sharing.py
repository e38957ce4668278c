"""One check for all ranks of a launch on a node: the first of them asks, the others take its answer.

An answer counts as long as the process that gave it lives, and no longer than the deadline: that of another
launch is never taken. A rank that gets none in time, or differs from the first, runs the check itself.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import Any, Callable, Optional

from npudoctor.core.frozen import replace
from npudoctor.core.lazy import pattern
from npudoctor.core.parsing import json_of
from npudoctor.host.process.processes import Processes
from npudoctor.launch.launch import Launch
from npudoctor.launch.preflight import Preflight, from_json
from npudoctor.launch.rendezvous import LARGEST, Rendezvous

TURN = 0.02
LINGER = 2.0  # how long an answer stays at least for the others to take it, whatever becomes of the job
TAKEN = ".taken-"
_OURS = pattern(r"[0-9a-f]{32}(\.taken-\d+)?\Z|\.[0-9a-f]{32}(\.taken-\d+)?-\d+\Z")


class Sharing:
    """One rank's side. `pid`: the process that will start the job. `place`: boot and pid namespace, in which
    pids mean what we think."""

    def __init__(
        self, rendezvous: Rendezvous, launch: Launch, alike: str, processes: Processes, pid: int, place: str
    ) -> None:
        self._rendezvous, self._launch, self._alike = rendezvous, launch, alike
        self._processes, self._place = processes, place
        process = processes.read_now(pid)
        self._author = [pid, process.started if process else 0]

    def answer(self, ask: Callable[[], Preflight], seconds: float) -> Preflight:
        """The answer for this rank."""
        if self._launch.rank != 0:
            return self._await_answer(seconds) or ask()
        try:
            # Remove what killed ones left, of this boot and namespace or of another boot.
            for name in filter(_OURS.match, list(self._rendezvous.names())):
                if name.startswith(".") and self._processes.read_now(int(name.rpartition("-")[2])):
                    continue  # being written
                record = self._rendezvous.read(name) or {}
                place = str(record.get("place", self._place))
                elsewhere = place != self._place and place.split()[0] == self._place.split()[0]
                if not elsewhere and not self._lives(record.get("author")):
                    self._rendezvous.remove(name)
            self._tell(None)
        except OSError:
            return ask()  # nobody will hear it
        try:
            path = os.path.join(self._rendezvous.path, self._launch.key)
            answer = replace(ask(), shared=path, ranks=self._launch.size, at=_now())
        except BaseException:
            self._rendezvous.remove(self._launch.key)  # the others need not wait
            raise
        with suppress(OSError):
            self._tell(answer)
        return answer

    def _tell(self, answer: Optional[Preflight]) -> None:
        record: dict[str, Any] = {"author": self._author, "place": self._place, "alike": self._alike}
        if answer is not None:
            record.update(at=answer.at, answer=answer.as_json())
        self._rendezvous.write(self._launch.key, record)

    def _await_answer(self, seconds: float) -> Optional[Preflight]:
        """Wait for the first rank's answer; None when there is none that this rank may use."""
        until, seen = time.monotonic() + seconds, False
        while time.monotonic() < until:
            record = self._rendezvous.read(self._launch.key)
            if record is None and seen:
                return None  # its author ended
            if record is not None:
                seen = True
                if record.get("alike") != self._alike or not self._lives(record.get("author")):
                    return None
                if "answer" in record:
                    with suppress(TypeError, KeyError, OSError):
                        taken = f"{self._launch.key}{TAKEN}{self._launch.rank}"
                        before = self._rendezvous.read(taken) or {}
                        # One of our number took it: the launcher starts ranks again, and this is the answer
                        # of the last.
                        again = before.get("of") == record["at"] and before.get("author") != self._author
                        if 0 <= _now() - record["at"] <= seconds and not again:
                            answer = from_json(record["answer"])
                            self._rendezvous.write(taken, {"author": self._author, "of": record["at"]})
                            return replace(answer, borrowed=True, shared=None)
                    return None
            time.sleep(TURN)
        return None

    def _lives(self, author: object) -> bool:
        if not isinstance(author, list) or len(author) != 2 or not isinstance(author[0], int):
            return False
        process = self._processes.read_now(author[0])
        return process is not None and not process.has_exited and process.started == author[1]


def withdraw(answer: Preflight) -> None:
    """At the end of the first rank: take its answer away, once the others had the time to take it."""
    if answer.shared is None:
        return
    folder, key = os.path.split(answer.shared)
    with suppress(OSError, ValueError):
        while 0 <= _now() - answer.at < LINGER and len(_files(folder, key)) < (answer.ranks or sys.maxsize):
            time.sleep(TURN)
        with open(answer.shared, "rb") as file:
            if json_of(file.read(LARGEST + 1), most=LARGEST).get("at") != answer.at:
                return  # the next launch's
        for name in _files(folder, key):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


def _files(folder: str, key: str) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(key)]


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
