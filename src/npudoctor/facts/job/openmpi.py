"""Open MPI: its library as a job would load it, its launcher, and their versions; by reading files only."""

from __future__ import annotations

from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.facts.job import process as job
from npudoctor.host.host import Host
from npudoctor.host.process.commands import find_program

PREFIX = "libmpi.so."
LAUNCHER = "mpirun"
HYDRA = ("hydra", "mpich", "impi")  # in the names of other MPIs' launchers
# The series of Open MPI, by the second number in the name of the library's file (libmpi.so.40.30.4).
SERIES = {"0": "3.0", "10": "3.1", "20": "4.0", "30": "4.1", "40": "5.0"}


@dataclass(frozen=True)
class Mpi:
    """A libmpi. `version` is "4.1.4" (`exact`), or "4.1" where only the name of its file tells it; None where
    nothing does.
    """

    path: str
    version: Optional[str]
    exact: bool = False


def find_library(host: Host, name: str) -> Optional[Mpi]:
    """The library of this name that a job would load; None when the loader finds none."""
    loader = job.loader(host)
    loaded = loader.dlopen(name)
    path = host.files.real(loaded.path) if loaded else None
    return read_library(host, path) if path else None


def read_library(host: Host, path: str) -> Mpi:
    """The libmpi at a path, with the version among its constants, else that of its file's name."""
    try:
        words = (host.libraries.section(path, ".rodata") or b"").split(b"\0")
    except CannotTell:
        # The section cannot be read: then the name of the file must do.
        words = []
    for word in words:
        # The library has its version as a C string, "v4.1.4".
        if word[:1] == b"v" and word.count(b".") == 2 and len(word) < 20:
            text = word[1:].decode("ascii", "replace")
            if all(part[:1].isdecimal() for part in text.split(".")):
                return Mpi(path, text, exact=True)
    name = path.rpartition("/")[2]
    # libmpi.so.40.30.4: 40 is the ABI of 3.x to 5.x, 30 the series.
    numbers = name[len(PREFIX) :].split(".") if name.startswith(PREFIX) else []
    return Mpi(path, SERIES.get(numbers[1]) if len(numbers) == 3 and numbers[0] == "40" else None)


def find_launcher(host: Host) -> Optional[str]:
    """The mpirun that a shell would start, the first in PATH; None where there is none."""
    return find_program(host.files, host.variables.path_list("PATH"), LAUNCHER)


def is_other_mpi(host: Host, path: str) -> bool:
    """Return whether a launcher belongs to another MPI: those of MPICH and Intel are links to hydra."""
    real = host.files.real(path) or path
    return any(word in real.rpartition("/")[2].lower() for word in HYDRA) or "/intel/" in real


def find_library_of(host: Host, path: str, name: str) -> Optional[Mpi]:
    """The library that was installed with a launcher, where both lie in folders of one prefix; None
    elsewhere.
    """
    real = host.files.real(path) or path
    prefix = real.rpartition("/")[0].rpartition("/")[0]
    for lib in ("lib", "lib64"):
        real_library = host.files.real(f"{prefix}/{lib}/{name}")
        if real_library is not None:
            return read_library(host, real_library)
    return None


def needed_name(host: Host, libraries: list[str]) -> Optional[str]:
    """The name under which these libraries need libmpi; None when none does."""
    for path in libraries:
        needing = host.libraries.read(path)
        for name in needing.needed if needing else ():
            if name.startswith(PREFIX):
                return name
    return None
