"""The kinds of steps, as data: each renders the line a person would type and carries its own guard."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Union, get_args, get_type_hints

from npudoctor.core.lazy import pattern
from npudoctor.core.marks import FileMark as FileMark
from npudoctor.core.marks import ProcessMark as ProcessMark
from npudoctor.core.model import Step
from npudoctor.fixing.steps.commands import Command as Command
from npudoctor.fixing.steps.commands import Export as Export
from npudoctor.fixing.steps.kernel import DeleteRule as DeleteRule
from npudoctor.fixing.steps.kernel import InsertRule as InsertRule
from npudoctor.fixing.steps.kernel import Remount as Remount
from npudoctor.fixing.steps.kernel import SetKernel as SetKernel
from npudoctor.fixing.steps.leftovers import RemoveFiles as RemoveFiles
from npudoctor.fixing.steps.leftovers import RemoveSharedMemory as RemoveSharedMemory
from npudoctor.fixing.steps.leftovers import RemoveSocket as RemoveSocket
from npudoctor.fixing.steps.leftovers import RemoveUnused as RemoveUnused
from npudoctor.fixing.steps.leftovers import RestoreSocket as RestoreSocket
from npudoctor.fixing.steps.leftovers import SignalProcess as SignalProcess
from npudoctor.fixing.steps.shell import quote as quote
from npudoctor.fixing.steps.texts import FileState
from npudoctor.fixing.steps.texts import PutBack as PutBack
from npudoctor.fixing.steps.texts import WriteFile as WriteFile

# Names of variables are printed without quotes.
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_MODE = 0o777  # neither set-user-id nor anything that chmod does not know


def is_valid(step: object) -> bool:
    """Return whether all fields have the annotated types, and those that are printed unquoted contain nothing
    else.
    """
    if not _fits(step, type(step)):
        return False
    kind = type(step).__name__
    if kind == "Export":
        return _NAME.fullmatch(getattr(step, "name")) is not None  # noqa: B009  (of a type not imported)
    if kind == "WriteFile":
        return bool(0 <= getattr(step, "mode") <= _MODE)  # noqa: B009
    needed = {"Command": "argv", "SignalProcess": "processes"}.get(kind)
    return needed is None or bool(getattr(step, needed))


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value has the annotated type."""
    # A class of fields; the module that knows it by its own mark loads a parser of Python.
    if isinstance(hint, type) and hasattr(hint, "__match_args__"):
        hints = _type_hints(hint)
        return type(value) is hint and all(_fits(getattr(value, name), hints[name]) for name in hints)
    origin = getattr(hint, "__origin__", None)
    if origin is Union:
        return any(_fits(value, part) for part in hint.__args__)
    if origin is tuple:  # all of ours are of one type, of any number
        return isinstance(value, tuple) and all(_fits(part, hint.__args__[0]) for part in value)
    # JSON has no difference between 10 and 10.0.
    return type(value) is hint or (hint is float and type(value) is int)


@cache
def _type_hints(kind: Any) -> Mapping[str, Any]:
    """The annotations of a class; cached, as evaluating them is slow."""
    return get_type_hints(kind)


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

KINDS: dict[str, Any] = {kind.__name__: kind for kind in get_args(KnownStep)}


def encode(step: Step) -> dict[str, Any]:
    """A step as JSON-able data, for the journal and for the pipe of a foreign check. TypeError for an unknown
    class.
    """
    # A foreign check could yield a class of its own.
    if type(step).__name__ not in KINDS:
        raise TypeError(f"not a step that can be encoded: {type(step).__name__}")
    from dataclasses import asdict

    return {"kind": type(step).__name__, **asdict(step)}  # type: ignore[call-overload]


def decode(data: Mapping[str, Any]) -> KnownStep:
    """The step that `encode` wrote; KeyError or TypeError when the data is not valid."""
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, (list, tuple)) else value
        for name, value in data.items()
        if name != "kind"
    }
    # asdict() has made plain dicts of the marks.
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
