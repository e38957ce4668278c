"""Shares one check among all ranks of a launch on a node: the first one runs it, the others read its answer.

An answer is valid while its author lives, and no longer than the deadline; an answer of another launch is
never used. A rank that gets none in time, or has another environment, runs the check itself.
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
from npudoctor.launch.preflight import Preflight, preflight_from_json
from npudoctor.launch.rendezvous import LARGEST, Rendezvous

TURN = 0.02  # seconds between two looks at the file
LINGER = 2.0  # seconds that an answer stays for the other ranks, even when the job ends at once
TAKEN = ".taken-"  # in the name of the file by which a rank records that it used the answer
_OURS = pattern(r"[0-9a-f]{32}(\.taken-\d+)?\Z|\.[0-9a-f]{32}(\.taken-\d+)?-\d+\Z")


class AnswerSharing:
    """The sharing of one answer, as seen by one rank.

    `fingerprint`: the fingerprint of the rank's environment. `pid`: the process that will start the job.
    `place`: boot id and pid namespace, in which the pids are valid.
    """

    def __init__(
        self,
        rendezvous: Rendezvous,
        launch: Launch,
        fingerprint: str,
        processes: Processes,
        pid: int,
        place: str,
    ) -> None:
        self._rendezvous, self._launch, self._fingerprint = rendezvous, launch, fingerprint
        self._processes, self._place = processes, place
        process = processes.read_now(pid)
        self._author = [pid, process.started if process else 0]

    def get_answer(self, ask: Callable[[], Preflight], seconds: float) -> Preflight:
        """The answer for this rank: of `ask` for the first one, else that of the first within `seconds`."""
        if self._launch.rank != 0:
            return self._await_answer(seconds) or ask()
        try:
            # Remove the files of ranks that were killed. A file of another pid namespace of this boot stays,
            # as its author cannot be seen from here.
            for name in filter(_OURS.match, list(self._rendezvous.list_names())):
                if name.startswith(".") and self._processes.read_now(int(name.rpartition("-")[2])):
                    continue  # a live process is writing it
                record = self._rendezvous.read(name) or {}
                place = str(record.get("place", self._place))
                is_other_namespace = place != self._place and place.split()[0] == self._place.split()[0]
                if not is_other_namespace and not self._is_alive(record.get("author")):
                    self._rendezvous.remove(name)
            self._publish(None)
        except OSError:
            return ask()  # the answer cannot be shared: the others will run the check themselves
        try:
            # Only the first rank writes this file: the key is the same for all ranks of the launch.
            path = os.path.join(self._rendezvous.path, self._launch.key)
            answer = replace(ask(), shared=path, ranks=self._launch.size, at=_boot_seconds())
        except BaseException:
            self._rendezvous.remove(self._launch.key)  # so that the other ranks stop waiting
            raise
        # The disk is full: the other ranks then check themselves.
        with suppress(OSError):
            self._publish(answer)
        return answer

    def _publish(self, answer: Optional[Preflight]) -> None:
        record: dict[str, Any] = {"author": self._author, "place": self._place, "alike": self._fingerprint}
        if answer is not None:
            record.update(at=answer.at, answer=answer.as_json())
        self._rendezvous.write(self._launch.key, record)

    def _await_answer(self, seconds: float) -> Optional[Preflight]:
        """Wait for the first rank's answer; None when there is none that this rank may use."""
        until, has_record = time.monotonic() + seconds, False
        while time.monotonic() < until:
            record = self._rendezvous.read(self._launch.key)
            if record is None and has_record:
                return None  # it was removed: its author ended
            if record is not None:
                has_record = True
                if record.get("alike") != self._fingerprint or not self._is_alive(record.get("author")):
                    return None
                if "answer" in record:
                    # The record of another version of npudoctor, or a full disk: then this rank checks
                    # itself.
                    with suppress(TypeError, KeyError, OSError):
                        taken_name = f"{self._launch.key}{TAKEN}{self._launch.rank}"
                        taken_record = self._rendezvous.read(taken_name) or {}
                        # An earlier process of this rank used it: the launcher restarts ranks, and this is
                        # still the answer of the previous start.
                        is_retry = (
                            taken_record.get("of") == record["at"]
                            and taken_record.get("author") != self._author
                        )
                        if 0 <= _boot_seconds() - record["at"] <= seconds and not is_retry:
                            answer = preflight_from_json(record["answer"])
                            self._rendezvous.write(taken_name, {"author": self._author, "of": record["at"]})
                            return replace(answer, borrowed=True, shared=None)
                    return None
            time.sleep(TURN)
        return None

    def _is_alive(self, author: object) -> bool:
        if not isinstance(author, list) or len(author) != 2 or not isinstance(author[0], int):
            return False
        process = self._processes.read_now(author[0])
        return process is not None and not process.has_exited and process.started == author[1]


def withdraw_answer(answer: Preflight) -> None:
    """Remove the answer of the first rank, when all other ranks have used it or LINGER has passed."""
    if answer.shared is None:
        return
    folder, key = os.path.split(answer.shared)
    # The file was removed, or is a record of another version: nothing of ours is left to remove.
    with suppress(OSError, ValueError):
        while 0 <= _boot_seconds() - answer.at < LINGER and len(_list_files(folder, key)) < (
            answer.ranks or sys.maxsize
        ):
            time.sleep(TURN)
        with open(answer.shared, "rb") as file:
            if json_of(file.read(LARGEST + 1), most=LARGEST).get("at") != answer.at:
                return  # it was replaced by the next launch's answer
        for name in _list_files(folder, key):
            # Another rank's npudoctor may remove it at the same time.
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


def _list_files(folder: str, key: str) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(key)]


def _boot_seconds() -> float:
    # Counts while the machine sleeps, and is equal in all processes: not stepped by NTP as wall time is.
    return time.clock_gettime(time.CLOCK_BOOTTIME)
