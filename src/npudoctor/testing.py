"""fake_host(): a machine made of plain values, for the tests of checks, ours and third parties'.

It is the real Host with a disk in memory. What is not given does not exist: a missing file, a
program that is not found (127), no process, no segment, no socket.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Callable, Optional, Union

from npudoctor.checking import Check, Skip
from npudoctor.frozen import dataclass
from npudoctor.host import CannotTell, Host, NotRunning, Options
from npudoctor.host.clock import Clock
from npudoctor.host.commands import Answer, Commands
from npudoctor.host.files import Entry, Files, Space
from npudoctor.host.given_network import FakeNetwork as FakeNetwork
from npudoctor.host.given_network import interface as interface
from npudoctor.host.given_network import interfaces_of
from npudoctor.host.identity import Identity
from npudoctor.host.interpreter import Interpreter, Layout
from npudoctor.host.names import Meaning, Names
from npudoctor.host.network import Network
from npudoctor.host.processes import Processes
from npudoctor.host.records import Record, Records
from npudoctor.host.sockets import Listener, Sockets
from npudoctor.host.variables import Variables
from npudoctor.knowledge.site import Knowledge
from npudoctor.model import Facts, Finding, Status
from npudoctor.needs import missing
from npudoctor.stamping import stamped

SITE = "/usr/lib/python3.11/site-packages"
# Ours on a fake machine: pid_max is never above it, so that no process of theirs is ever ourselves.
OUR_PID = 1 << 22
TICKS = 100  # of a second: the unit of `started` in process_files()


@dataclass(frozen=True)
class Node:
    """A file of the disk in memory: content, link target, or a special kind, with its owner and mode.

    `held`: the bytes of disk that it takes.
    """

    content: bytes = b""
    kind: int = stat.S_IFREG
    permissions: int = 0o644
    uid: int = 0
    gid: int = 0
    target: str = ""
    error: int = 0
    mtime: float = 0.0
    nlink: int = 1
    held: int = 0


def link(target: str) -> Node:
    """A symbolic link."""
    return Node(kind=stat.S_IFLNK, permissions=0o777, target=target)


def device(permissions: int = 0o660, gid: int = 0) -> Node:
    """A character device node."""
    return Node(kind=stat.S_IFCHR, permissions=permissions, gid=gid)


def folder(permissions: int = 0o755, uid: int = 0) -> Node:
    """A directory, empty unless other paths lie below it."""
    return Node(kind=stat.S_IFDIR, permissions=permissions, uid=uid)


def unreadable(number: int = errno.EACCES) -> Node:
    """A path that is there, and answers every question with this errno."""
    return Node(error=number)


Content = Union[str, bytes, Node]


class MemoryDisk:
    """The Disk protocol over a mapping of absolute paths; parents exist by themselves.

    A file whose mode keeps this user out is not read: `euid` is in no group.
    """

    def __init__(self, files: Mapping[str, Content], euid: int = 0) -> None:
        self._euid = euid
        self._nodes: dict[str, Node] = {"/": folder()}
        self.spaces: dict[str, Space] = {}
        for path, content in files.items():
            self.put(path, content)

    def put(self, path: str, content: Content) -> None:
        """Add or replace a file, with its parents."""
        if isinstance(content, str):
            content = Node(content.encode("utf-8", "surrogateescape"))
        elif isinstance(content, bytes):
            content = Node(content)
        self._nodes[path] = content
        parent = path.rsplit("/", 1)[0]
        while parent and parent not in self._nodes:
            self._nodes[parent] = folder()
            parent = parent.rsplit("/", 1)[0]

    def has(self, path: str) -> bool:
        """Whether it was given, readable or not."""
        return path in self._nodes

    def lstat(self, path: str) -> Entry:
        node = self._node(path)
        inode = sorted(self._nodes).index(path) + 2
        moment = int(node.mtime * 1e9)
        return Entry(
            node.kind | node.permissions, inode, 0xFE00, node.nlink, node.uid, node.gid,
            len(node.content), moment, moment, node.held or len(node.content),
        )  # fmt: skip

    def readlink(self, path: str) -> str:
        node = self._node(path)
        if not node.target:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        return node.target

    def names(self, path: str, most: int = 0) -> list[str]:
        if not stat.S_ISDIR(self._node(path).kind):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        prefix = path.rstrip("/") + "/"
        below = (name[len(prefix) :] for name in self._nodes if name.startswith(prefix) and name != "/")
        return sorted({name.split("/", 1)[0] for name in below})[: most or None]

    def read(self, path: str, limit: int, start: int = 0) -> bytes:
        node = self._node(path)
        if self._euid and not node.permissions & (0o400 if node.uid == self._euid else 0o004):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return node.content[start : start + limit]

    def may_block(self, path: str) -> bool:
        return False

    def accessible(self, path: str, mode: int) -> bool:
        """No node here has an access list that would allow more than its mode does."""
        return False

    def space(self, path: str) -> Space:
        """That of the longest path given which holds this one; else there is plenty."""
        self._node(path)
        while path not in self.spaces and path != "/":
            path = path.rsplit("/", 1)[0] or "/"
        return self.spaces.get(path, Space(1 << 40, 1 << 39, 1 << 26, 1 << 25, 0xFE00))

    def close(self) -> None:
        """Nothing to end."""

    def _node(self, path: str) -> Node:
        node = self._nodes.get(path if path == "/" else path.rstrip("/"))
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if node.error:
            raise OSError(node.error, os.strerror(node.error), path)
        return node


class FakeCommands(Commands):
    """Answers what it was given, by the whole argv or by the program's name alone; all else is 127."""

    def __init__(
        self,
        answers: Mapping[Union[str, tuple[str, ...]], Union[str, Answer]],
        files: Optional[Files] = None,
        *,
        as_root: bool = False,
        variables: Optional[Mapping[str, str]] = None,
    ) -> None:
        super().__init__(files or Files(MemoryDisk({})), as_root=as_root, variables=variables)
        self.asked: list[tuple[str, ...]] = []
        self._answers = dict(answers)
        self._variables = {}  # root's PATH is looked for here

    def find(self, name: str) -> Optional[str]:
        named = {key if isinstance(key, str) else key[0] for key in self._answers}
        return f"/usr/bin/{name}" if name in named else None

    def trusted(self, path: str) -> bool:
        return True

    def close(self) -> None:
        """Nothing runs."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 5.0,
        limit: int = 1 << 20,
        variables: Optional[Mapping[str, str]] = None,
        here: bool = False,
    ) -> Answer:
        told = tuple(argv)
        self.asked.append(told)
        answer = self._answers.get(told, self._answers.get(told[0].rsplit("/", 1)[-1]))
        if answer is None:
            return Answer(told, "missing", 127)
        return Answer(told, "exited", 0, answer) if isinstance(answer, str) else answer


class FakeClock(Clock):
    """A clock that stands at `now` and jumps where it is told to wait."""

    def __init__(self, now: float = 1_800_000_000.0, synchronised: Optional[bool] = True) -> None:
        self.current = now
        self.waited = 0.0
        self.kept = synchronised

    def synchronised(self) -> Optional[bool]:
        return self.kept

    def now(self) -> float:
        return self.current + self.waited

    def steady(self) -> float:
        return self.waited

    def wait_until(self, steady: float) -> None:
        self.waited = max(self.waited, steady)


def process_files(
    pid: int,
    name: str = "python3",
    *,
    argv: Sequence[str] = (),
    exe: str = "/usr/bin/python3",
    parent: int = 1,
    state: str = "S",
    uid: int = 0,
    started: int = 1000,
    descriptors: Optional[Mapping[int, str]] = None,
    maps: str = "",
) -> dict[str, Content]:
    """The /proc files of one process, for the disk of a fake host."""
    rest = " ".join(["0"] * 12)
    files: dict[str, Content] = {
        f"/proc/{pid}": folder(0o555, uid),
        f"/proc/{pid}/stat": f"{pid} ({name}) {state} {parent} {pid} {pid} 0 -1 0 {rest} {started} 0",
        f"/proc/{pid}/cmdline": "".join(f"{word}\0" for word in argv),
        f"/proc/{pid}/status": f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n",
        f"/proc/{pid}/maps": maps,
        f"/proc/{pid}/exe": link(exe),
        f"/proc/{pid}/fd": folder(0o500, uid),
    }
    for number, target in (descriptors or {}).items():
        files[f"/proc/{pid}/fd/{number}"] = link(target)
    return files


def package_files(name: str, version: str, *headers: str, site: str = SITE) -> dict[str, Content]:
    """The metadata of a distribution; `headers` are whole lines such as "Requires-Dist: numpy"."""
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *headers]
    return {f"{site}/{name.replace('-', '_')}-{version}.dist-info/METADATA": "\n".join(lines) + "\n"}


def fake_host(
    files: Optional[Mapping[str, Content]] = None,
    *,
    variables: Optional[Mapping[str, str]] = None,
    packages: Optional[Mapping[str, str]] = None,
    python: str = "/usr/bin/python3",
    python_version: str = "3.11.7",
    machine: str = "x86_64",
    search_path: Sequence[str] = (SITE,),
    commands: Optional[Mapping[Union[str, tuple[str, ...]], Union[str, Answer]]] = None,
    addresses: Iterable[str] = ("127.0.0.1", "::1"),
    network: Optional[Network] = None,
    names: Optional[Mapping[str, Union[str, Sequence[str]]]] = None,
    probe: Optional[Callable[..., Listener]] = None,
    expect: str = "auto",
    root: Optional[str] = None,
    euid: int = 0,
    user: str = "root",
    owners: frozenset[int] = frozenset(),
    groups: frozenset[int] = frozenset(),
    records: Sequence[Record] = (),
    now: float = 1_800_000_000.0,
    knowledge: str = "",
    options: Optional[Options] = None,
    spaces: Optional[Mapping[str, Space]] = None,
    synchronised: Optional[bool] = True,
) -> Host:
    """A machine on which only what is given exists.

    `files`: absolute path to text, bytes or a Node. `packages`: name to version, as installed in the
    interpreter. `commands`: argv or program name to its output or Answer. `addresses`: the machine's
    own; `network`: a FakeNetwork, which knows more, instead. `names`: host names to their addresses, or to
    why there are none (see Meaning). `probe` answers connect() on socket files. `root` makes it an image.
    `knowledge` is a real directory with a site's rows. `options`: what else the user said.
    `spaces`: what statvfs says of the file system that begins at a path. `synchronised`: what the kernel
    says of its clock.
    """
    given = files or {}
    disk = MemoryDisk({**dict.fromkeys(("/proc", "/dev", "/sys"), folder()), **given}, euid)
    disk.spaces.update(spaces or {})
    if not root and "/proc/self" not in given:
        # A link to our pid, and where something is given below it a folder too: both ways lead there.
        within = any(path.startswith("/proc/self/") for path in given)
        kind = stat.S_IFDIR if within else stat.S_IFLNK
        disk.put("/proc/self", Node(kind=kind, permissions=0o777, target=str(OUR_PID)))
    for name, version in (packages or {}).items():
        for path, content in package_files(name, version).items():
            disk.put(path, content)
    caller = dict(variables or {})
    below = Files(disk, root or "/")
    if network is None:
        network = FakeNetwork(interfaces_of(addresses))
    own = frozenset(address.text for one in network.interfaces() for address in one.addresses)
    kept = Records("/nonexistent", euid)
    kept._read = list(records)
    fake_commands = FakeCommands(commands or {}, below, as_root=euid == 0, variables=caller)
    return Host(
        # Cache servers are looked for on the real disk.
        replace(options or Options(), expect=expect, root=root, tmp="/nonexistent"),
        disk=disk,
        variables=caller,
        identity=Identity(euid, user, f"/home/{user}" if euid else "/root", owners, groups),
        files=below,
        commands=fake_commands,
        processes=Processes(disk, TICKS, lambda pid: disk.has(f"/proc/{pid}"), OUR_PID),
        sockets=Sockets(disk, lambda: own, probe or (lambda *_args: Listener.UNKNOWN)),
        network=network,
        names=Names(lambda asked: {name: _meaning(name, names or {}) for name in asked}),
        clock=FakeClock(now, synchronised),
        records=kept,
        knowledge=Knowledge(knowledge),
        interpreter=Interpreter(
            python,
            "path",
            files=below,
            commands=None,
            variables=Variables({} if root else caller),
            as_root=euid == 0,
            layout=Layout(tuple(search_path), python_version, machine, asked=True),
        ),
    )


def _meaning(name: str, names: Mapping[str, Union[str, Sequence[str]]]) -> Meaning:
    found = names.get(name, "none")
    return Meaning(failed=found) if isinstance(found, str) else Meaning(tuple(found))


@dataclass(frozen=True)
class Asked:
    """What a check answered: its status, findings, facts, and the reason of a skip or an unknown."""

    status: Status
    findings: tuple[Finding, ...]
    facts: Mapping[str, object]
    reason: str = ""
    advisory: bool = False

    @property
    def codes(self) -> list[str]:
        """The codes of the findings, in order."""
        return [finding.code for finding in self.findings]


def ask(check: Check, host: Host) -> Asked:
    """Ask one check as the runner does, without threads; what is no Skip and no Unknown is raised."""
    findings: list[Finding] = []
    facts: dict[str, object] = {}
    status, reason, advisory = Status.OK, "", False
    try:
        why = missing(check.needs, host)
        if why is not None:
            raise Skip(why)
        for answer in check.ask(host):
            answer = stamped(check, answer)
            if isinstance(answer, Facts):
                facts.update(answer.values)
            else:
                findings.append(answer)
    except Skip as skip:
        status, reason = Status.SKIPPED, str(skip)
    except NotRunning:
        status, reason = Status.SKIPPED, "an image is not running"
    except CannotTell as unknown:
        status, reason, advisory = Status.UNKNOWN, unknown.reason, unknown.advisory
    if status is Status.OK and any(finding.weight > 1 for finding in findings):
        status = Status.PROBLEM
    return Asked(status, tuple(findings), facts, reason, advisory)
