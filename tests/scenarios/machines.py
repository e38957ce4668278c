"""Healthy machines: an era, a processor, a framework; and all checks asked of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Callable, Optional, Union

from tests.checks.leftovers.leftovers_machine import Leftovers
from tests.support.room import open_place

from npudoctor.core.model import Report
from npudoctor.host import Host, Options
from npudoctor.host.fs.files import Space
from npudoctor.host.network.interfaces import Interface
from npudoctor.host.process.commands import CommandResult, Commands
from npudoctor.host.python.interpreter_probe import QUESTION
from npudoctor.knowledge.site import Knowledge
from npudoctor.registry.collector import LoadedChecks
from npudoctor.runner.runner import Settings, run
from npudoctor.testing import Content, FakeNetwork, Limit, Memory, MemoryDisk, fake_host

from . import cann, network, npu, python_env, system
from .eras import ERAS, Era
from .system import HOME as HOME
from .system import LIMITS, MEMORY, USER

ARCHS = ("x86_64", "aarch64")
INSTALLED = {
    "torch": python_env.torch,
    "mindspore": python_env.mindspore,
    "vllm": python_env.vllm,
    "paddle": python_env.paddle,
}
# The others were published for few releases.
KINDS = [
    *((version, kind) for version in ERAS for kind in ("torch", "mindspore")),
    ("8.5.0", "vllm"),
    ("8.0.0", "paddle"),
]
Answers = dict[Union[str, tuple[str, ...]], Union[str, CommandResult]]
USERS = {0: "root", USER: "trainer"}


@dataclass(frozen=True)
class Layout:
    """What a Python answers: its prefix and its base's, the user's folder, the search path."""

    prefix: str
    base: str
    user: str
    path: tuple[str, ...]

    def told(self, version: str, arch: str) -> str:
        """The answer, as it writes it."""
        return "NPUDOCTOR\0" + "\0".join((version, arch, self.prefix, self.base, self.user, *self.path))


@dataclass
class Machine:
    """A machine as a mapping of files, the variables of the job's shell, and what Python answers."""

    era: Era
    arch: str
    framework: str
    files: dict[str, Content] = field(repr=False)
    variables: dict[str, str] = field(repr=False)
    uid: int = USER
    # The machine's memory, and the limits of the job's shell.
    memory: Memory = MEMORY
    limits: dict[str, Limit] = field(default_factory=lambda: dict(LIMITS), repr=False)
    # How it differs from others of its era.
    word: str = ""
    # Other interpreters: path of the program to the version and the site-packages.
    pythons: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    # What its Python says of itself, where that is not what one built from source says.
    layout: Optional[Layout] = field(default=None, repr=False)
    # What its site adds to our tables: the content of a file.
    rows: str = field(default="", repr=False)
    # What npu-smi answers, None where there is none; and the groups of the user.
    npu_smi: Union[str, CommandResult, None] = field(default="", repr=False)
    groups: frozenset[int] = frozenset({USER, npu.GROUP})
    # What other programs answer, by argv or by name.
    commands: Answers = field(default_factory=dict, repr=False)
    interfaces: list[Interface] = field(default_factory=network.interfaces, repr=False)
    routes: Sequence[str] = network.ROUTES
    # What names mean, and the nodes that the caller names with --peers.
    names: Mapping[str, Union[str, Sequence[str]]] = field(default_factory=dict, repr=False)
    peers: tuple[str, ...] = ()
    expect: str = "npu"
    spaces: Mapping[str, Space] = field(default_factory=dict, repr=False)
    synchronised: bool = True
    now: float = system.NOW
    # Leaves what dead cache servers leave in a real folder, for as long as the machine is judged.
    leaves: Optional[Callable[[Leftovers], None]] = field(default=None, repr=False)
    # Not running: an image, looked at from outside.
    image: bool = False

    @property
    def name(self) -> str:
        """How the table names it."""
        return f"{self.era.cann} {self.arch} {self.framework} {self.word}".rstrip()

    @property
    def top(self) -> str:
        """The CANN that its shell uses."""
        return cann.top(self.era)

    @property
    def site(self) -> str:
        """Where Python's packages are."""
        return python_env.site(self.era)

    @property
    def python(self) -> str:
        """The program of its Python."""
        return f"{python_env.PREFIX}/bin/python{self.era.minor}"

    @property
    def contained(self) -> bool:
        """Whether it is a container."""
        return "/.dockerenv" in self.files

    def remove(self, *prefixes: str) -> None:
        """Take these files away, and all that lies below them."""
        for path in list(self.files):
            if any(path == prefix or path.startswith(f"{prefix}/") for prefix in prefixes):
                del self.files[path]

    def unset(self, *names: str) -> None:
        """Take these variables away."""
        for name in names:
            self.variables.pop(name, None)

    def entries(self, name: str) -> list[str]:
        """The entries of a list of folders."""
        return self.variables.get(name, "").split(":")

    def install(self, name: str, version: str, *requires: str, folder: str = "") -> None:
        """Put one version of a distribution in place of another, as pip does."""
        self.uninstall(name)
        self.files.update(python_env.distribution(folder or self.site, name, version, *requires))

    def uninstall(self, name: str) -> None:
        """Take a distribution's metadata away."""
        start = f"{self.site}/{name.replace('-', '_')}-"
        self.remove(
            *{f"{start}{path[len(start) :].split('/')[0]}" for path in self.files if path.startswith(start)}
        )

    def copy(self) -> Machine:
        """One that may be broken."""
        return replace(
            self,
            files=dict(self.files),
            limits=dict(self.limits),
            variables=dict(self.variables),
            commands=dict(self.commands),
            interfaces=list(self.interfaces),
            word="",
        )


def healthy(version: str, arch: str, framework: str, python: str = "") -> Machine:
    """The healthy machine of this era, processor and framework; with another Python if one is given."""
    return replace(_made_once(version, arch, framework, python).copy(), pythons={}, names={}, spaces={})


@cache
def _made_once(version: str, arch: str, framework: str, python: str) -> Machine:
    """Nobody changes it: each module asks for the same fifty machines, and writes a thousand libraries."""
    era = replace(ERAS[version], python=python) if python else ERAS[version]
    if framework == "mindspore" and era.mindspore == "2.10.0":
        era = replace(era, numpy="1.26.4")  # with NumPy 2 it imports, and every operator fails
    parts: list[Mapping[str, Content]] = [
        system.files(),
        cann.tree(era, arch),
        cann.driver(era, arch),
        python_env.program(era, arch),
        python_env.packages(era, arch),
        INSTALLED[framework](era, arch),
    ]
    files = {path: content for part in parts for path, content in part.items()}
    shell = {"HOME": HOME, "USER": "trainer", "LANG": "C.UTF-8"}
    variables = {
        **shell,
        **cann.variables(era, arch, f"{python_env.PREFIX}/bin:/usr/local/bin:/usr/bin:/bin"),
    }
    if framework == "torch" and era.layout == "old":
        # The scripts of that time for PyTorch set it, those for MindSpore did not.
        variables["ASCEND_AICPU_PATH"] = cann.top(era)
    if framework == "vllm":
        variables.update(python_env.atb_variables(variables["LD_LIBRARY_PATH"]))
    files[npu.CONF], files[npu.TOOL] = npu.conf(), python_env.executable(b"")
    answers: Answers = {network.RULES: network.rules(), **npu.ports()}
    return Machine(era, arch, framework, files, variables, npu_smi=npu.screen(era), commands=answers)


def all_machines() -> list[Machine]:
    """Every healthy machine on which faults are tried."""
    return [healthy(version, arch, name) for version, name in KINDS for arch in ARCHS]


def host_of(machine: Machine) -> Host:
    """It, running, as the job's user sees it; the interpreter is chosen and asked by the real code."""
    if machine.image:
        return _host_of_image(machine)
    own = _told(machine, machine.era.python, python_env.PREFIX, machine.site)
    if machine.layout is not None:
        own = machine.layout.told(machine.era.python, machine.arch)
    others: Answers = {
        (path, "-I", "-c", QUESTION): _told(machine, version, path.rsplit("/", 2)[0], site)
        for path, (version, site) in machine.pythons.items()
    }
    if machine.npu_smi is not None:
        others["npu-smi", "info"] = machine.npu_smi
    host = fake_host(
        {**system.processes(machine.contained), **machine.files},
        variables=machine.variables,
        commands={"python3": own, **machine.commands, **others},
        expect=machine.expect,
        euid=machine.uid,
        groups=machine.groups,
        user=USERS.get(machine.uid, str(machine.uid)),
        network=FakeNetwork(machine.interfaces, machine.routes),
        names=machine.names,
        options=Options(peers=machine.peers),
        spaces=machine.spaces,
        synchronised=machine.synchronised,
        now=machine.now,
        memory=machine.memory,
        limits=machine.limits,
    )
    # Chosen, trusted and asked as on a real machine: root starts nothing that others could have written.
    del host._parts["interpreter"]
    if machine.rows:
        host._parts["knowledge"] = _site_rows(machine.rows)
    host.commands.is_trusted = partial(Commands.is_trusted, host.commands)  # type: ignore[method-assign]
    return host


def _host_of_image(machine: Machine) -> Host:
    """It as --root sees it, with the Python that --python names in it."""
    files = {f"/image{path}": content for path, content in machine.files.items()}
    options = Options(python=f"{python_env.PREFIX}/bin/python3")
    host = fake_host(files, root="/image", expect="npu", options=options)
    del host._parts["interpreter"]
    return host


def _site_rows(text: str) -> Knowledge:
    """Our tables with the rows of a file, read by the real code, which keeps what it read."""
    with TemporaryDirectory(dir=open_place()) as directory:
        path = Path(directory, "site.toml")
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
        knowledge = Knowledge(directory)
        knowledge.site_rows()
        return knowledge


def _told(machine: Machine, version: str, prefix: str, site: str) -> str:
    """What an interpreter answers when it is asked for its search path."""
    minor = ".".join(version.split(".")[:2])
    user = f"{HOME}/.local/lib/python{minor}/site-packages"
    words = [version, machine.arch, prefix, prefix, user, site.rpartition("/")[0], site]
    return "NPUDOCTOR\0" + "\0".join(words)


def judge(loaded: LoadedChecks, machine: Machine) -> Report:
    """What the doctor says of it."""
    with TemporaryDirectory(dir=open_place()) if machine.leaves else nullcontext("") as folder:
        host = host_of(machine)
        if machine.leaves:
            _leave(host, machine.leaves, Path(folder))
        try:
            return run(loaded, host, Settings())
        finally:
            host.close()


def _leave(host: Host, leaves: Callable[[Leftovers], None], folder: Path) -> None:
    """Sockets and logs are looked for on the real disk; segments and processes are the machine's."""
    left = Leftovers(folder)
    leaves(left)
    there = left.host()
    assert isinstance(host.disk, MemoryDisk)
    for path, content in left.given().items():
        host.disk.put(path, content)
    host.options = replace(host.options, tmp=str(folder))
    host._parts.update(sockets=there.sockets, records=there.records, clock=there.clock)
