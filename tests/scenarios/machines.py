"""Healthy machines: an era, a processor, a framework; and all checks asked of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Optional, Union

from npudoctor.host import Host, Options
from npudoctor.host.commands import Answer, Commands
from npudoctor.host.question import QUESTION
from npudoctor.knowledge.site import Knowledge
from npudoctor.model import Report
from npudoctor.registry import Loaded
from npudoctor.runner import Settings, run
from npudoctor.testing import Content, fake_host, folder

from . import cann, python_env, system
from .eras import ERAS, Era
from .system import HOME as HOME
from .system import USER

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
    # How it differs from others of its era.
    word: str = ""
    # Other interpreters: path of the program to the version and the site-packages.
    pythons: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    # What its Python says of itself, where that is not what one built from source says.
    layout: Optional[Layout] = field(default=None, repr=False)
    # What its site adds to our tables: the content of a file.
    rows: str = field(default="", repr=False)
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
        return Machine(self.era, self.arch, self.framework, dict(self.files), dict(self.variables), self.uid)


def healthy(version: str, arch: str, framework: str, python: str = "") -> Machine:
    """The healthy machine of this era, processor and framework; with another Python if one is given."""
    era = replace(ERAS[version], python=python) if python else ERAS[version]
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
    return Machine(era, arch, framework, files, variables)


def _of_root(machine: Machine) -> None:
    machine.uid = 0
    machine.variables.update(HOME="/root", USER="root")
    machine.files["/root"] = folder(0o700)


def _of_root_with_anothers_python(machine: Machine) -> None:
    """Root in an environment that a user made: it is not started, its folders are read."""
    _of_root(machine)
    machine.files[python_env.PREFIX] = folder(0o755, USER)


def _in_container(machine: Machine) -> None:
    """As a container sees it: the driver mounted, the firmware not, ports reserved by nobody it could see."""
    machine.files["/.dockerenv"] = ""
    machine.remove("/usr/local/Ascend/firmware", "/etc/ascend_install.info")


def _own_install(machine: Machine) -> None:
    """CANN in the user's home, installed without root."""
    old, new = "/usr/local/Ascend/ascend-toolkit", f"{HOME}/Ascend/ascend-toolkit"
    for path in list(machine.files):
        content = machine.files[path]
        if isinstance(content, str):
            content = content.replace(old, new)
        machine.files[path.replace(old, new)] = content
        if path.startswith(old):
            del machine.files[path]
    machine.remove("/etc/Ascend")
    machine.variables.update({name: value.replace(old, new) for name, value in machine.variables.items()})


def _image(machine: Machine) -> None:
    """An image that is being made: no variable, nothing that runs."""
    _of_root(machine)
    machine.image = True


VARIANTS = {
    "root": _of_root,
    "root, Python of another": _of_root_with_anothers_python,
    "container": _in_container,
    "home": _own_install,
}


def variants() -> list[Machine]:
    """Machines of one era that are set up in other ways."""
    made = []
    for word, change in VARIANTS.items():
        for framework in ("torch", "mindspore"):
            machine = healthy("8.1.RC1", "aarch64", framework)
            change(machine)
            machine.word = word
            made.append(machine)
    return [*made, *images()]


def images() -> list[Machine]:
    """Images of each era and framework."""
    made = []
    for version, framework in KINDS:
        machine = healthy(version, "aarch64", framework)
        _image(machine)
        machine.word = "image"
        made.append(machine)
    return made


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
    others: dict[Union[str, tuple[str, ...]], Union[str, Answer]] = {
        (path, "-I", "-c", QUESTION): _told(machine, version, path.rsplit("/", 2)[0], site)
        for path, (version, site) in machine.pythons.items()
    }
    host = fake_host(
        machine.files,
        variables=machine.variables,
        commands={"python3": own, **others},
        expect="npu",
        euid=machine.uid,
        user=USERS.get(machine.uid, str(machine.uid)),
    )
    # Chosen, trusted and asked as on a real machine: root starts nothing that others could have written.
    del host._parts["interpreter"]
    if machine.rows:
        host._parts["knowledge"] = _site_rows(machine.rows)
    host.commands.trusted = partial(Commands.trusted, host.commands)  # type: ignore[method-assign]
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
    with TemporaryDirectory() as directory:
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


def judge(loaded: Loaded, machine: Machine) -> Report:
    """What the doctor says of it."""
    host = host_of(machine)
    try:
        return run(loaded, host, Settings())
    finally:
        host.close()
