"""Installations of CANN: where they are, which of them are one and the same, and their versions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.facts.cann.places import ASCEND as ASCEND
from npudoctor.facts.cann.places import ENDINGS as ENDINGS
from npudoctor.facts.cann.places import candidates
from npudoctor.facts.cann.places import named_root as named_root
from npudoctor.facts.job.working_directory import job_user
from npudoctor.host.devices import cann_info
from npudoctor.host.fs.files import Files

if TYPE_CHECKING:
    from npudoctor.host.host import Host

YEARS = 20  # 20.0 to 20.2 came before 5.0


@dataclass(frozen=True)
class Install:
    """One installation. `path` is how it was named, `real` where its parts really lie: two names of one
    tree share it. `version` is the product's (8.1.RC1), `component` the other train's (7.7.0.1.238).
    `kind`: toolkit, nnae, nnrt, or flat, the oldest layout. `named_by`: the variable, else "".
    """

    path: str
    real: str
    version: Optional[str]
    component: Optional[str]
    arch: Optional[str]
    kind: str
    named_by: str = ""

    @property
    def before_6(self) -> bool:
        """Whether it is of the 5.x era or older, when the environment was set by hand."""
        for number, first in ((self.version, (6, 0)), (self.component, (1, 83))):
            # Component 1.83 is CANN 6.0; products before 5.0 were named by year (20.0 to 20.2).
            numbers = re.match(r"(\d+)\.(\d+)", number or "")
            if numbers:
                release = int(numbers[1]), int(numbers[2])
                return release < first or release[0] >= YEARS
        return self.kind == "flat"

    def differs_from(self, other: Install) -> bool:
        """Whether the two are known to be of different versions."""
        for own_version, other_version in ((self.version, other.version), (self.component, other.component)):
            if own_version and other_version:
                return own_version != other_version
        return False

    @property
    def label(self) -> str:
        """How a message names it."""
        number = self.version or self.component
        return f"{self.path} ({number})" if number else self.path


def installs_of(host: Host) -> list[Install]:
    """Every installation of the machine or image, the one in use first; in an image the variables do not
    count.

    CannotTell as find_installs.
    """
    return list(host.once("installs of CANN", lambda: _installs_of(host)))


def install_in_use(host: Host) -> Optional[Install]:
    """The installation that the variables name, else the first in the usual places; None where there
    is none.
    """
    return next(iter(installs_of(host)), None)


def _installs_of(host: Host) -> list[Install]:
    prefix = host.interpreter.path.rpartition("/")[0].rpartition("/")[0]  # a conda environment's, perhaps
    more = [prefix] if prefix.startswith("/") else []
    if host.options.root is None:
        return find_installs(host.files, host.variables, job_user(host).home, more)
    try:
        homes = [f"/home/{name}" for name in host.files.names("/home")]
    except CannotTell:
        # /home of an image may be closed to us: installations of users are then not found.
        homes = []
    return find_installs(host.files, {}, "/root", [*more, *homes])


def find_installs(
    files: Files, variables: Mapping[str, str], home: str, more: Sequence[str] = ()
) -> list[Install]:
    """Every installation, the one that the variables name first; each tree once.

    `more`: other folders that may hold an Ascend folder. CannotTell when what a variable names cannot be
    looked at, or when nothing is found and a place outside the home cannot be looked at.
    """
    installs: dict[str, Install] = {}
    unread: Optional[CannotTell] = None
    for path, named_by in candidates(files, variables, home, more):
        try:
            install = install_at(files, path, named_by)
        except CannotTell as error:
            if named_by:
                raise
            # Nobody said that there is one in the home: what cannot be seen there does not count.
            unread = unread if path.startswith(f"{home}/") else error
            continue
        if install is not None:
            # The first name of a tree is the one that a job would use.
            installs.setdefault(install.real, install)
    if unread is not None and not installs:
        raise unread
    return list(installs.values())


def install_at(files: Files, path: str, named_by: str = "") -> Optional[Install]:
    """The installation that a path names; None when none of the parts that make one is there."""
    path = path.rstrip("/")
    real = real_root(files, path) if path.startswith("/") else None
    if real is None:
        return None
    record = cann_info.read_record(files, (path, real))
    # The parts have the component's number; the install record has the product's.
    component, product = cann_info.read_versions(files, path)
    return Install(
        path,
        real,
        record.get("version") or product,
        component,
        record.get("arch") or cann_info.machine_of(files, (path, real)),
        _kind(record.get("package_name", ""), path),
        named_by,
    )


def operators(files: Files, path: str) -> Optional[str]:
    """The real folder of an installation's operators (opp); None where there is none. It is the same for
    every name of the installation.
    """
    path = f"{path.rstrip('/')}/opp"
    entry = files.stat(path) if path.startswith("/") else None
    return files.real(path) if entry is not None and entry.is_dir else None


def real_root(files: Files, path: str) -> Optional[str]:
    """The folder in which the parts of an installation really lie; None when there is no part."""
    for component in cann_info.COMPONENTS:
        real = files.real(f"{path}/{component}")
        if real is not None:
            return real.rsplit("/", 1)[0] or "/"
    return None


def set_env_script(files: Files, install: Install) -> Optional[str]:
    """The script that sets its variables: in it or beside it, by layout; None where there is none.

    The one beside a release sets the variables of `latest`, which may be another release.
    """
    folder = install.path.rsplit("/", 1)[0]
    # The script beside a release sets the variables of `latest`: only where both are one release is it this
    # one's.
    beside = install.path.endswith("/latest") or real_root(files, f"{folder}/latest") in (None, install.real)
    own = f"{install.path}/{install.arch}-linux/script"
    for place in (install.path, *([folder] if beside else []), own):
        path = f"{place}/set_env.sh"
        if files.stat(path) is not None:
            return path
    return None


def _kind(package: str, path: str) -> str:
    match = re.match(r"Ascend-cann-(toolkit|nnae|nnrt)", package)
    if match:
        return match[1]
    for kind in ("nnae", "nnrt"):
        if f"/{kind}/" in path:
            return kind
    # An installation right in the root has no folder for its release.
    return "flat" if path == ASCEND else "toolkit"
