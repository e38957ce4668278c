"""The kinds of steps, as data: each renders the line a person would type and carries its own guard."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Union

from npudoctor.core.marks import FileMark as FileMark
from npudoctor.core.marks import ProcessMark as ProcessMark
from npudoctor.core.model import Step
from npudoctor.fixing.steps.commands import Command as Command
from npudoctor.fixing.steps.commands import Export as Export
from npudoctor.fixing.steps.kernel import SetKernel as SetKernel
from npudoctor.fixing.steps.leftovers import RemoveFiles as RemoveFiles
from npudoctor.fixing.steps.leftovers import RemoveSharedMemory as RemoveSharedMemory
from npudoctor.fixing.steps.leftovers import RemoveSocket as RemoveSocket
from npudoctor.fixing.steps.leftovers import RemoveUnused as RemoveUnused
from npudoctor.fixing.steps.leftovers import RestoreSocket as RestoreSocket
from npudoctor.fixing.steps.leftovers import SignalProcess as SignalProcess
from npudoctor.fixing.steps.remount import Remount as Remount
from npudoctor.fixing.steps.rules import DeleteRule as DeleteRule
from npudoctor.fixing.steps.rules import InsertRule as InsertRule
from npudoctor.fixing.steps.shell import quote as quote
from npudoctor.fixing.steps.texts import FileState
from npudoctor.fixing.steps.texts import PutBack as PutBack
from npudoctor.fixing.steps.texts import WriteFile as WriteFile
from npudoctor.fixing.steps.validation import is_valid

KnownStep = Union[
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


def decode(data: Mapping[str, Any]) -> KnownStep:
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
        fields["was"] = FileState(**fields["was"])
    if data["kind"] == "SignalProcess":
        fields["processes"] = tuple(
            ProcessMark(mark["pid"], mark["started"], tuple(mark["cgroups"])) for mark in fields["processes"]
        )
    step: KnownStep = KINDS[data["kind"]](**fields)
    if not is_valid(step):
        raise TypeError(f"not the fields of a {data['kind']}")
    return step
