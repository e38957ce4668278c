"""What an installation of CANN is made of: dangling links, parts of other releases, kernels, machine."""

from __future__ import annotations

import errno
from typing import Optional

from npudoctor.core.cann_version import accepts, is_at_least, train
from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror
from npudoctor.facts.cann.installations import Install
from npudoctor.facts.cann.set_env import SITES
from npudoctor.host.devices import cann_info
from npudoctor.host.fs.files import Files
from npudoctor.host.libraries.extensions import HEADER, machine_of
from npudoctor.host.users.access import ENTER, READ, first_barrier
from npudoctor.host.users.identity import Identity

# What every release of its time has, and what a job cannot do without.
CORE = ("compiler", "runtime", "hccl", "opp", "toolkit", "fwkacllib")
VITAL = ("compiler", "runtime", "opp", "fwkacllib")
# What the loader enters. What Python searches must be listed too: it passes over a folder that cannot be.
ENTERED = ("opp", "lib64", "compiler", "runtime", "fwkacllib")
LISTED = tuple(f"{site}{below}" for site in SITES for below in ("", "/te", "/hccl"))
# Where the runtime libraries lie, by age of the release.
ACL = ("lib64", "runtime/lib64", "fwkacllib/lib64")
# Loaded by torch_npu and MindSpore: runtime, communication, graph engine.
LIBRARIES = ("libascendcl.so", "libhccl.so", "libge_runner.so")

MACHINES = ("x86_64", "aarch64")  # those that CANN is for
_ALIASES = {"arm64": "aarch64", "amd64": "x86_64"}
# The install record of the ops package, which takes the place of opp_kernel from 8.5 on.
_OPS = pattern(r"ascend_\w*ops_install\.info\Z")


def dangling_links(files: Files, place: str) -> list[str]:
    """The links that lead nowhere: the place itself, or the parts of a `latest` that is a real folder."""
    entry = files.lstat(place)
    if entry is None:
        return []
    # The link itself dangles, or leads to a release whose parts are judged by themselves.
    if entry.is_link:
        return [] if files.stat(place) else [place]
    parts = (f"{place}/{part}" for part in CORE)
    return [part for part in parts if files.lstat(part) is not None and files.stat(part) is None]


def releases_of(files: Files, place: str) -> dict[str, list[str]]:
    """For each real folder that holds core parts of this installation, the names of these parts."""
    parts_of: dict[str, list[str]] = {}
    for part in CORE:
        real = files.real(f"{place}/{part}")
        if real is not None and real.endswith(f"/{part}"):
            parts_of.setdefault(real[: -len(part) - 1], []).append(part)
    return parts_of


def why_closed(files: Files, install: Install, foreign: Optional[Identity] = None) -> Optional[str]:
    """Why the job's user cannot use an installation; None when what a job needs of it can be read.

    `foreign`: that user, where it is not ours: then the modes tell. CannotTell for an obstacle other than
    permissions.
    """
    if foreign is not None:
        return _why_closed_to(files, install, foreign)
    try:
        for part in ENTERED:
            files.lstat(f"{install.path}/{part}/version.info")  # to look at a name in it, it is entered
        for part in LISTED:
            files.names(f"{install.path}/{part}")
            files.lstat(f"{install.path}/{part}/__init__.py")
        for name in LIBRARIES:
            for folder in ACL:
                path = f"{install.path}/{folder}/{name}"
                entry = files.stat(path)
                if entry is not None and entry.is_file:  # of a folder in its place the loader complains
                    files.read(path, HEADER)
    except CannotTell as error:
        if not is_closed(error):
            raise
        return error.reason
    return None


def _why_closed_to(files: Files, install: Install, who: Identity) -> Optional[str]:
    libraries = (f"{folder}/{name}" for name in LIBRARIES for folder in ACL)
    parts = [(part, ENTER) for part in ENTERED] + [(part, READ | ENTER) for part in LISTED]
    for part, bits in (*parts, *((path, READ) for path in libraries)):
        path = f"{install.path}/{part}"
        entry = files.stat(path)
        barrier = first_barrier(files, path, who) if entry else None
        if barrier is None and entry is not None and who.is_denied(entry, bits):
            barrier = path
        if barrier is not None:
            return _("{path} cannot be read: {why}", path=barrier, why=strerror(errno.EACCES))
    return None


def is_closed(error: CannotTell) -> bool:
    """Return whether an error means that this user lacks the permission."""
    return isinstance(error.__cause__, PermissionError)


def kernels_version(files: Files, install: Install) -> Optional[str]:
    """The version of the kernels package (from 8.5 on: ops); "" when it does not say, None without one."""
    folder = f"{install.path}/opp_kernel"
    if files.stat(folder) is not None:
        return cann_info.parse_settings(cann_info.read_text(files, f"{folder}/version.info")).get(
            "version", ""
        )
    for place in cann_info.record_folders(files, (install.path, install.real)):
        for name in files.names(place):
            if _OPS.match(name):
                return cann_info.parse_settings(cann_info.read_text(files, f"{place}/{name}")).get(
                    "version", ""
                )
    return None


def kernels_match(files: Files, install: Install, version: str) -> Optional[bool]:
    """Return whether the kernels package is one that the release asks for; None when nothing says so.

    From 8.5 it is called ops; from 9.0 on the two are upgraded independently (release notes of CANN
    9.2.0-beta.1: its ops suit toolkits from 8.5.2 on), and two numbers are no fault by themselves.
    """
    if is_at_least(install.version, "8.5"):
        # The package has the product's or the component's number, by release.
        if train(version) in (train(install.version), train(install.component)):
            return True
        independent = is_at_least(install.version, "9.0") or is_at_least(version, "9.0")
        return None if independent else False
    for part in ("toolkit", "runtime", "compiler", "opp"):
        info = cann_info.parse_settings(cann_info.read_text(files, f"{install.path}/{part}/version.info"))
        requirement = info.get("required_package_opp_kernel_version")
        if requirement:
            return accepts(requirement, version)
    own_train, kernel_train = train(install.component), train(version)
    return None if own_train is None or kernel_train is None else own_train == kernel_train


def machines_of(files: Files, install: Install) -> set[str]:
    """The machines that an installation is for, by its install records; more than one with a second
    toolkit.
    """
    folders = cann_info.record_folders(files, (install.path, install.real))
    recorded = [cann_info.read_record_in(files, folder).get("arch") for folder in folders]
    return {canonical_machine(arch) for arch in (*recorded, install.arch) if arch}


def library_machine(files: Files, install: Install) -> Optional[str]:
    """The machine that its libraries are for; None where there is none to read."""
    for name in LIBRARIES:
        for folder in ACL:
            machine = elf_machine(files, f"{install.path}/{folder}/{name}")
            if machine:
                return machine
    return None


def elf_machine(files: Files, path: str) -> Optional[str]:
    """The machine in an ELF file's header; None when CANN is not for it, or the file cannot be read."""
    try:
        machine = machine_of(files, path)
    except CannotTell:
        return None
    return machine if machine in MACHINES else None


def canonical_machine(machine: str) -> str:
    """One name for each machine."""
    return _ALIASES.get(machine.lower(), machine.lower())
