"""The kinds of steps, as data: each renders the line a person would type and carries its own guard."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Optional, Union

from npudoctor.frozen import dataclass
from npudoctor.model import Step


def quote(word: str) -> str:
    """A word for a POSIX shell line that a person can read and paste, whatever bytes are in it.

    Control characters and bytes that are no UTF-8 are spelled as $'...', which bash, zsh and ksh read.
    """
    if word.isprintable():
        import shlex  # most runs show no line

        return shlex.quote(word)
    raw = word.encode("utf-8", "surrogateescape")
    safe = "".join(chr(b) if 32 <= b < 127 and b not in b"\\'" else f"\\x{b:02x}" for b in raw)
    return f"$'{safe}'"


@dataclass(frozen=True)
class Command:
    """Run a program: argv, no shell. Its guard is the program itself.

    `undo` is the argv that takes it back; empty where nothing can.
    """

    argv: tuple[str, ...]
    undo: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        return (" ".join(quote(word) for word in self.argv),)

    def undo_lines(self) -> tuple[str, ...]:
        return (" ".join(quote(word) for word in self.undo),) if self.undo else ()


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
class FileMark:
    """Which file is meant: its name in its folder, device, inode, size, and mtime in nanoseconds."""

    name: str
    device: int
    inode: int
    size: int
    mtime_ns: int


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


@dataclass(frozen=True)
class RemoveUnused:
    """Remove files of one directory, which stays.

    Guard: each is the same, unchanged, with one name, and a lease (F_SETLEASE) tells that nobody in the
    whole kernel has it open or mapped; those in /dev/shm are proven left over anew by proof.shared besides.
    """

    directory: str
    owner: int
    files: tuple[FileMark, ...]

    def lines(self) -> tuple[str, ...]:
        folder = self.directory.rstrip("/")
        return tuple(f"rm -- {quote(f'{folder}/{mark.name}')}" for mark in self.files)


@dataclass(frozen=True)
class ProcessMark:
    """Which process is meant: its pid, when it began (clock ticks since boot), its control groups."""

    pid: int
    started: int
    cgroups: tuple[str, ...]


@dataclass(frozen=True)
class SignalProcess:
    """End processes of one owner: SIGTERM, a wait, and SIGKILL for those that are left. Nothing undoes it.

    Guard: each is still the same process in the same control groups, proven stale anew by proof.ending,
    and each child of one is among them. `processes` are in the order in which they are signalled: children
    before their parents. `seconds`: how long they have to end after either signal.
    """

    processes: tuple[ProcessMark, ...]
    owner: int
    seconds: float = 10.0

    def lines(self) -> tuple[str, ...]:
        pids = " ".join(str(mark.pid) for mark in self.processes)
        return (f"kill -TERM {pids}", f"sleep {self.seconds:g}; kill -KILL {pids}")


Known = Union[
    Command,
    Export,
    RemoveSharedMemory,
    RemoveSocket,
    RestoreSocket,
    RemoveFiles,
    RemoveUnused,
    SignalProcess,
]

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Command,
        Export,
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
    if data["kind"] in ("RemoveFiles", "RemoveUnused"):
        fields["files"] = tuple(FileMark(**mark) for mark in fields["files"])
    if data["kind"] == "SignalProcess":
        fields["processes"] = tuple(
            ProcessMark(mark["pid"], mark["started"], tuple(mark["cgroups"])) for mark in fields["processes"]
        )
    made: Known = KINDS[data["kind"]](**fields)
    return made
