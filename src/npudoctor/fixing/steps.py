"""The kinds of steps, as data: each renders the line a person would type and carries its own guard."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from npudoctor.fixing.kernel import SetKernel as SetKernel
from npudoctor.fixing.shell import quote as quote
from npudoctor.fixing.texts import PutBack as PutBack
from npudoctor.fixing.texts import Was
from npudoctor.fixing.texts import WriteFile as WriteFile
from npudoctor.frozen import dataclass
from npudoctor.model import Step


def line_of(argv: Iterable[str]) -> str:
    """An argv as the line that a person would type."""
    return " ".join(quote(word) for word in argv)


@dataclass(frozen=True)
class FileMark:
    """Which file is meant: its name in its folder, device, inode, size, and mtime in nanoseconds."""

    name: str
    device: int
    inode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Command:
    """Run a program: argv, no shell. Its guard is the program itself, and what is said here besides.

    `undo` is the argv that takes it back; empty where nothing can. `unless`: where this succeeds, it is so
    already, and is not done (whoever takes back what somebody else had done before would do harm).
    `skipped` is how the program begins each line where it says so itself. `inputs` are files (by path)
    that must still be the same. `still`: where this fails, it is gone already, as after a reboot.
    """

    argv: tuple[str, ...]
    undo: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    skipped: str = ""
    inputs: tuple[FileMark, ...] = ()
    still: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        return (line_of(self.argv),)

    def back(self) -> Optional[Command]:
        """The step that takes it back; None where nothing can."""
        return Command(self.undo, still=self.unless) if self.undo else None

    def undo_lines(self) -> tuple[str, ...]:
        return (line_of(self.undo),) if self.undo else ()


@dataclass(frozen=True)
class InsertRule:
    """Insert a rule of nftables at the front of a chain. Guard: the chain is there, and has none with our
    comment. `place` is family, table and chain.

    Its handle is known only afterwards, so it is found again by its comment.
    """

    place: tuple[str, ...]
    rule: tuple[str, ...]
    comment: str

    @property
    def argv(self) -> tuple[str, ...]:
        """What is run."""
        return ("nft", "insert", "rule", *self.place, *self.rule, "comment", self.comment)

    def lines(self) -> tuple[str, ...]:
        return (line_of(self.argv),)

    def back(self) -> DeleteRule:
        """The step that takes it back."""
        return DeleteRule(self.place, self.rule, self.comment)

    def undo_lines(self) -> tuple[str, ...]:
        """In a shell, which looks the handle up as DeleteRule does."""
        words = " ".join(quote(word) for word in self.place)
        only = quote(f's/.*"{self.comment}" # handle //p')
        found = f"nft -a list chain {words} | sed -n {only}"
        return (f'nft delete rule {words} handle "$({found})"',)


@dataclass(frozen=True)
class DeleteRule:
    """Delete the rule of nftables that carries our comment. Guard: one such rule in that chain."""

    place: tuple[str, ...]
    rule: tuple[str, ...]
    comment: str

    def lines(self) -> tuple[str, ...]:
        return InsertRule(self.place, self.rule, self.comment).undo_lines()


@dataclass(frozen=True)
class Export:
    """Set a variable in the caller's shell: shown, never applied, since no child can change its parent."""

    name: str
    value: str

    def lines(self) -> tuple[str, ...]:
        # zsh takes an unquoted =word for the path of a command.
        value = f"'{self.value}'" if quote(self.value).startswith("=") else quote(self.value)
        return (f"export {self.name}={value}",)


@dataclass(frozen=True)
class RemoveSharedMemory:
    """Remove a System V segment by its id. Guard: still the same object, and nobody attached.

    `owner` is the uid whose thing it is; `dtime` is kept as the evidence of when its server died, and
    `log_device` and `log_inode` as that of which log is this server's, where it has one.
    """

    shmid: int
    key: int
    cpid: int
    ctime: int
    dtime: int
    size: int
    owner: int
    log_device: Optional[int] = None
    log_inode: Optional[int] = None

    def lines(self) -> tuple[str, ...]:
        return (f"ipcrm -m {self.shmid}",)


@dataclass(frozen=True)
class RemoveSocket:
    """Remove a stale socket file. Guard: same device, inode and mtime, still nobody listening. (A new
    server's socket on the same port can get the same inode, as was seen.)

    `port` is the cache server's. `after` are the segments (shmid) whose proof this file is:
    while one of them is still there, the file stays.
    """

    path: str
    device: int
    inode: int
    mtime_ns: int
    owner: int
    port: int
    after: tuple[int, ...] = ()

    def lines(self) -> tuple[str, ...]:
        return (f"rm -- {quote(self.path)}",)


@dataclass(frozen=True)
class RestoreSocket:
    """Give a socket file its name back, which a removal that was killed midway had taken."""

    path: str
    back_to: str
    device: int
    inode: int
    mtime_ns: int
    owner: int

    def lines(self) -> tuple[str, ...]:
        return (f"mv -n -- {quote(self.path)} {quote(self.back_to)}",)


@dataclass(frozen=True)
class RemoveFiles:
    """Remove known files of one directory, then the directory; never recursively.

    Guard: the directory and each file are still the same, unchanged, and nobody has one open.
    """

    directory: str
    device: int
    inode: int
    owner: int
    files: tuple[FileMark, ...]

    def lines(self) -> tuple[str, ...]:
        folder = self.directory.rstrip("/")
        removals = tuple(f"rm -- {quote(f'{folder}/{mark.name}')}" for mark in self.files)
        return (*removals, f"rmdir -- {quote(folder)}")


Known = Union[
    Command,
    InsertRule,
    DeleteRule,
    Export,
    SetKernel,
    WriteFile,
    PutBack,
    RemoveSharedMemory,
    RemoveSocket,
    RestoreSocket,
    RemoveFiles,
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
        WriteFile,
        PutBack,
        RemoveSharedMemory,
        RemoveSocket,
        RestoreSocket,
        RemoveFiles,
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
    for name in ("files", "inputs"):
        if name in fields:
            fields[name] = tuple(FileMark(**mark) for mark in fields[name])
    if isinstance(fields.get("was"), dict):
        fields["was"] = Was(**fields["was"])
    made: Known = KINDS[data["kind"]](**fields)
    if not _sound(made):
        raise TypeError(f"not the fields of a {data['kind']}")
    return made


def _sound(step: Known) -> bool:
    """Whether what others told has the types that acting needs."""
    if isinstance(step, Command):
        return bool(step.argv) and all(isinstance(one, tuple) and _texts(*one) for one in _words(step))
    if isinstance(step, SetKernel):
        return _texts(step.name, step.value, step.was)
    if isinstance(step, WriteFile):
        return _texts(step.path, step.content) and type(step.mode) is int
    return not isinstance(step, PutBack) or _texts(step.path, step.sha256)


def _words(step: Command) -> tuple[object, ...]:
    return step.argv, step.undo


def _texts(*values: object) -> bool:
    return all(isinstance(value, str) for value in values)
