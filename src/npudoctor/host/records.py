"""Reads the journals that `fix` writes before it acts: evidence that is still there after a removal."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _, strerror
from npudoctor.core.parsing import json_of
from npudoctor.core.trust.rule import is_own_file
from npudoctor.host.users.identity import Identity

ROOT_STATE = "/var/lib/npudoctor"
MAX_JOURNAL_BYTES = 8 << 20  # more of one journal is not read


@dataclass(frozen=True)
class Record:
    """One line of a journal: the run that wrote it, the event ("step" and others) and its fields."""

    run: str
    event: str
    data: Mapping[str, object]

    @property
    def step(self) -> Mapping[str, object]:
        """The step that the run was about to take, as data; empty for other events."""
        step = self.data.get("step")
        return step if isinstance(step, dict) else {}


class Records:
    """The journals below a state directory, newest run last. Lines that are cut are skipped."""

    def __init__(self, directory: str, uid: int) -> None:
        self.directory = directory
        self._uid = uid
        self._records: Optional[list[Record]] = None
        self.doubts: list[str] = []
        """Sentences on what could not be read or is not trusted; filled by reading."""

    @classmethod
    def for_identity(cls, identity: Identity, variables: Mapping[str, str]) -> Records:
        """The records of this user's runs: below /var/lib for root, else below $XDG_STATE_HOME.

        Root never follows the variable: under sudo -E it may name a folder of somebody else.
        """
        if identity.is_root:
            return cls(ROOT_STATE, identity.euid)
        base = variables.get("XDG_STATE_HOME", "")
        if not base.startswith("/"):
            base = os.path.join(identity.home, ".local", "state")
        return cls(os.path.join(base, "npudoctor"), identity.euid)

    def unread_copy(self) -> Records:
        """The same journals, not yet read: `fix` reads them anew after it has acted."""
        return Records(self.directory, self._uid)

    def read_all(self) -> list[Record]:
        """Every record, in the order of writing within a run."""
        if self._records is not None:
            return self._records
        folder = os.path.join(self.directory, "journal")
        names: list[str] = []
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            # Nothing was ever fixed here: that is no doubt.
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self._note_doubt(folder, strerror(error.errno))
        records = []
        for name in names:
            if not name.endswith(".jsonl"):
                continue
            for line in self._lines(os.path.join(folder, name)):
                try:
                    data: dict[str, object] = json_of(line)
                    records.append(Record(name[: -len(".jsonl")], str(data["event"]), data))
                except (ValueError, KeyError, TypeError, RecursionError):
                    continue  # a line that a kill cut short
        self._records = records
        return records

    def steps_of_kind(self, kind: str) -> Iterator[Record]:
        """The records of steps of one kind, such as "RemoveSharedMemory"."""
        return (record for record in self.read_all() if record.step.get("kind") == kind)

    def _lines(self, path: str) -> list[str]:
        """The lines of a journal; none if it is not ours, or if somebody else may write it."""
        try:
            # O_NONBLOCK: a FIFO in the place of a journal must not make us wait.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._note_doubt(path, strerror(error.errno))
            return []
        with open(descriptor, "rb") as file:
            is_trusted = is_own_file(os.fstat(descriptor), self._uid)
            if not is_trusted:
                self._note_doubt(path, _("it is not a file that only this user can write to"))
            return file.read(MAX_JOURNAL_BYTES).decode("utf-8", "replace").splitlines() if is_trusted else []

    def _note_doubt(self, path: str, why: str) -> None:
        self.doubts.append(_("{path} cannot be read: {why}", path=path, why=why))
