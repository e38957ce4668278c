"""The machine made of these parts, and a check asked on it as the runner would ask it."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import Callable, Optional, Union

from npudoctor.checking.check import Check, Skip
from npudoctor.checking.needs import why_not_applicable
from npudoctor.checking.validation import row_status, validate
from npudoctor.core.frozen import dataclass, replace
from npudoctor.core.model import Facts, Finding, Status
from npudoctor.host import CannotTell, Host, NotRunning, Options
from npudoctor.host.fs.files import Files, Space
from npudoctor.host.network.names import Names, Resolution
from npudoctor.host.network.network import Network
from npudoctor.host.network.sockets import Listener, Sockets
from npudoctor.host.process.commands import CommandResult
from npudoctor.host.process.job_start import why_not_tried
from npudoctor.host.process.processes import Processes
from npudoctor.host.python.interpreter import Interpreter, Layout
from npudoctor.host.records import Record, Records
from npudoctor.host.resources import Limit, Memory
from npudoctor.host.users.identity import Identity
from npudoctor.host.variables import Variables
from npudoctor.knowledge.site import Knowledge
from npudoctor.testing.disk import Content, FileNode, MemoryDisk, folder
from npudoctor.testing.fakes import (
    OUR_PID,
    SITE,
    TICKS,
    UPTIME,
    FakeClock,
    FakeCommands,
    FakeResources,
    FakeTrials,
    package_files,
)
from npudoctor.testing.network import FakeNetwork, interfaces_of
from npudoctor.trial.trials import Trial


def fake_host(
    files: Optional[Mapping[str, Content]] = None,
    *,
    variables: Optional[Mapping[str, str]] = None,
    packages: Optional[Mapping[str, str]] = None,
    python: str = "/usr/bin/python3",
    python_version: str = "3.11.7",
    machine: str = "x86_64",
    search_path: Sequence[str] = (SITE,),
    commands: Optional[Mapping[Union[str, tuple[str, ...]], Union[str, CommandResult]]] = None,
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
    uptime: float = UPTIME,
    memory: Optional[Memory] = None,
    cpus: int = 0,
    limits: Optional[Mapping[str, Limit]] = None,
    trials: Optional[Mapping[str, Trial]] = None,
) -> Host:
    """A machine on which only the given things exist.

    `files`: absolute path to text, bytes or a Node. `packages`: name to version, as installed in the
    interpreter. `commands`: argv or program name to its output or Answer. `addresses`: the machine's
    own; `network`: a FakeNetwork, which knows more, instead. `names`: host names to their addresses, or to
    why there are none (see Meaning). `probe` answers connect() on socket files. `root` makes it an image.
    `knowledge` is a real directory with a site's rows. `options`: further options.
    `spaces`: what statvfs says of the file system that begins at a path. `synchronised`: what the kernel
    says of its clock. `uptime`: seconds since it booted, at `now`.
    `memory`: the machine's; `cpus`: how many a process may run on; `limits`: of a process, by the kernel's
    names. `trials`: what came of each part of the trial; of others nothing was refused.
    """
    files_given = files or {}
    disk = MemoryDisk({**dict.fromkeys(("/proc", "/dev", "/sys"), folder()), **files_given}, euid)
    disk.spaces.update(spaces or {})
    if not root and "/proc/self" not in files_given:
        # A link to our pid, and where something is given below it a folder too: both ways lead there.
        within = any(path.startswith("/proc/self/") for path in files_given)
        kind = stat.S_IFDIR if within else stat.S_IFLNK
        disk.put("/proc/self", FileNode(kind=kind, permissions=0o777, target=str(OUR_PID)))
    for name, version in (packages or {}).items():
        for path, content in package_files(name, version).items():
            disk.put(path, content)
    caller = dict(variables or {})
    below = Files(disk, root or "/")
    if network is None:
        network = FakeNetwork(interfaces_of(addresses))
    own = frozenset(address.text for interface in network.interfaces() for address in interface.addresses)
    fake_records = Records("/nonexistent", euid)
    # The records as they would be read from the journals.
    fake_records._records = list(records)
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
        names=Names(lambda names_asked: {name: _resolve(name, names or {}) for name in names_asked}),
        clock=FakeClock(now, synchronised, uptime),
        records=fake_records,
        resources=FakeResources(memory, cpus, limits),
        trials=FakeTrials(trials or {}, lambda: why_not_tried(options or Options(), euid == 0, disk)),
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


def _resolve(name: str, names: Mapping[str, Union[str, Sequence[str]]]) -> Resolution:
    """The addresses of a name at the time of the question: a test may have changed the names."""
    addresses = names.get(name, "none")
    return Resolution(failed=addresses) if isinstance(addresses, str) else Resolution(tuple(addresses))


@dataclass(frozen=True)
class CheckAnswer:
    """The answer of a check: its status, findings, facts, and the reason of a skip or an unknown."""

    status: Status
    findings: tuple[Finding, ...]
    facts: Mapping[str, object]
    reason: str = ""
    advisory: bool = False
    tried_by: tuple[str, ...] = ()

    @property
    def codes(self) -> list[str]:
        """The codes of the findings, in order."""
        return [finding.code for finding in self.findings]


def ask(check: Check, host: Host) -> CheckAnswer:
    """Run one check as the runner does, without threads; any exception but Skip and CannotTell is raised."""
    findings: list[Finding] = []
    facts: dict[str, object] = {}
    status, reason, advisory = Status.OK, "", False
    tried_by: tuple[str, ...] = ()
    try:
        why = why_not_applicable(check.needs, host)
        if why is not None:
            raise Skip(why)
        # Findings before a Skip or an Unknown are kept, as the runner does.
        for answer in check.ask(host):
            answer = validate(check, answer)
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
        tried_by = tuple(unknown.tried_by)
    return CheckAnswer(row_status(status, findings), tuple(findings), facts, reason, advisory, tried_by)
