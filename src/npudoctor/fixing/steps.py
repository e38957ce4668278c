"""The kinds of steps, as data: each renders the line a person would type and carries its own guard."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Optional, Union

from npudoctor.fixing.kernel import SetKernel as SetKernel
from npudoctor.fixing.leftovers import FileMark as FileMark
from npudoctor.fixing.leftovers import ProcessMark as ProcessMark
from npudoctor.fixing.leftovers import RemoveFiles as RemoveFiles
from npudoctor.fixing.leftovers import RemoveSharedMemory as RemoveSharedMemory
from npudoctor.fixing.leftovers import RemoveSocket as RemoveSocket
from npudoctor.fixing.leftovers import RemoveUnused as RemoveUnused
from npudoctor.fixing.leftovers import RestoreSocket as RestoreSocket
from npudoctor.fixing.leftovers import SignalProcess as SignalProcess
from npudoctor.fixing.remount import Remount as Remount
from npudoctor.fixing.rules import DeleteRule as DeleteRule
from npudoctor.fixing.rules import InsertRule as InsertRule
from npudoctor.fixing.shell import line_of
from npudoctor.fixing.shell import quote as quote
from npudoctor.fixing.sound import sound
from npudoctor.fixing.texts import PutBack as PutBack
from npudoctor.fixing.texts import Was
from npudoctor.fixing.texts import WriteFile as WriteFile
from npudoctor.frozen import dataclass
from npudoctor.model import Step


@dataclass(frozen=True)
class Command:
    """Run a program: argv, no shell. Its guard is the program itself, and what is said here besides.

    `undo` is the argv that takes it back; empty where nothing can. `unless`: where this succeeds, it is so
    already, and is not done (whoever takes back what somebody else had done before would do harm).
    `skipped` is how the program begins each line where it says so itself. `inputs` are files (by path)
    that must still be the same, `undo_inputs` those of `undo`. `still`: where this says no (status 1), it is
    gone already, as after a reboot.
    """

    argv: tuple[str, ...]
    undo: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    skipped: str = ""
    inputs: tuple[FileMark, ...] = ()
    still: tuple[str, ...] = ()
    undo_inputs: tuple[FileMark, ...] = ()

    def lines(self) -> tuple[str, ...]:
        return (line_of(self.argv),)

    def back(self) -> Optional[Command]:
        """The step that takes it back; None where nothing can."""
        return Command(self.undo, still=self.unless, inputs=self.undo_inputs) if self.undo else None

    def undo_lines(self) -> tuple[str, ...]:
        return (line_of(self.undo),) if self.undo else ()


@dataclass(frozen=True)
class Export:
    """Set a variable in the caller's shell: shown, never applied, since no child can change its parent."""

    name: str
    value: str

    def lines(self) -> tuple[str, ...]:
        # zsh takes an unquoted =word for the path of a command.
        value = f"'{self.value}'" if quote(self.value).startswith("=") else quote(self.value)
        return (f"export {self.name}={value}",)


Known = Union[
    Command,
    InsertRule,
    DeleteRule,
    Export,
    SetKernel,
    Remount,
    WriteFile,
    PutBack,
    RemoveSharedMemory,
    RemoveSocket,
    RestoreSocket,
    RemoveFiles,
    RemoveUnused,
    SignalProcess,
]

RUN = (Command, InsertRule)  # what programs do for us

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Command,
        InsertRule,
        DeleteRule,
        Export,
        SetKernel,
        Remount,
        WriteFile,
        PutBack,
        RemoveSharedMemory,
        RemoveSocket,
        RestoreSocket,
        RemoveFiles,
        RemoveUnused,
        SignalProcess,
    )
}


def encode(step: Step) -> dict[str, Any]:
    """A step as JSON-able data, for the journal and for the pipe of a foreign check."""
    if type(step).__name__ not in KINDS:
        raise TypeError(f"not a step that can be told: {type(step).__name__}")
    return {"kind": type(step).__name__, **dataclasses.asdict(step)}  # type: ignore[call-overload]


def decode(data: Mapping[str, Any]) -> Known:
    """The step that `encode` told; KeyError or TypeError when it is none."""
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, (list, tuple)) else value
        for name, value in data.items()
        if name != "kind"
    }
    for name in ("files", "inputs", "undo_inputs"):
        if name in fields:
            fields[name] = tuple(FileMark(**mark) for mark in fields[name])
    if isinstance(fields.get("was"), dict):
        fields["was"] = Was(**fields["was"])
    if data["kind"] == "SignalProcess":
        fields["processes"] = tuple(
            ProcessMark(mark["pid"], mark["started"], tuple(mark["cgroups"])) for mark in fields["processes"]
        )
    made: Known = KINDS[data["kind"]](**fields)
    if not sound(made):
        raise TypeError(f"not the fields of a {data['kind']}")
    return made
