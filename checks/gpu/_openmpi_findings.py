"""The words of the check openmpi."""

from __future__ import annotations

from npudoctor import Action, Export, Finding, Fix, Host, Risk, _
from npudoctor.checks.gpu._job import weight
from npudoctor.facts.job.openmpi import Mpi

ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")


def missing(host: Host, name: str) -> Finding:
    """No library."""
    text = _(
        "MindSpore's communication between GPUs needs {name} of Open MPI, which the loader does not find"
    )
    return Finding("openmpi.missing", text.format(name=name), severity=weight(host), action=Action.CONFIG)


def too_old(found: Mpi, least: str) -> Finding:
    """One that nobody has documented."""
    text = _("Open MPI is {version}; MindSpore's guide was written with {least}")
    return Finding("openmpi.too-old", text.format(version=found.version, least=least), evidence=(found.path,))


def no_launcher() -> Finding:
    """A library without the program that starts processes."""
    return Finding(
        "openmpi.no-launcher", _("Open MPI's library is installed, but there is no mpirun in PATH")
    )


def other_mpi(host: Host, path: str) -> Finding:
    """The launcher of MPICH or Intel."""
    text = _("the first mpirun in PATH is not Open MPI's: {path} is {real}")
    return Finding(
        "openmpi.other-mpi",
        text.format(path=path, real=host.files.real(path) or path),
        action=Action.CONFIG,
    )


def several(path: str, own: Mpi, version: str) -> Finding:
    """Two installations."""
    text = _("{path} belongs to Open MPI {own}, but the loaded library is {version}")
    return Finding(
        "openmpi.several",
        text.format(path=path, own=own.version, version=version),
        evidence=(own.path,),
        action=Action.CONFIG,
    )


def root() -> Finding:
    """What mpirun asks of root."""
    text = _("mpirun refuses to run as root unless {names} are 1 or --allow-run-as-root is passed")
    return Finding(
        "openmpi.root",
        text.format(names=", ".join(ROOT)),
        action=Action.CONFIG,
        fix=Fix(
            _("let mpirun run as root, as in a container"),
            tuple(Export(name, "1") for name in ROOT),
            tuple(f"unset {name}" for name in ROOT),
            Risk.MANUAL,
            needs_root=False,
        ),
    )
