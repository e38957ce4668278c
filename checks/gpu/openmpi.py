"""Is there an Open MPI with which MindSpore can be started?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Export,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Skip,
    _,
    check,
)
from npudoctor.facts.job.expected_accelerator import gpu_expected

if TYPE_CHECKING:
    from npudoctor.facts.job.openmpi import Mpi

INSIDE = "OMPI_COMM_WORLD_SIZE"  # set in every process that mpirun has started
# MindSpore's installation guide for GPUs was written with this release.
LEAST = "4.0.3"
# mpirun refuses to run as root unless both are 1 (Open MPI FAQ, "Running as root").
ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")


@check(
    "openmpi",
    scope=Scope.JOB,
    tags={"mindspore", "nvidia"},
    needs=("framework", "mindspore", "mindspore-gpu"),
    codes={
        "openmpi.missing": ERROR,
        "openmpi.several": WARNING,
        "openmpi.other-mpi": WARNING,
        "openmpi.too-old": INFO,
        "openmpi.no-launcher": INFO,
        "openmpi.root": INFO,
    },
)
def openmpi(host: Host) -> Iterator[Union[Finding, Facts]]:
    """MindSpore can be started with the installed Open MPI.

    ## What it does

    Looks for the libmpi that the communication libraries of MindSpore for GPUs need, as the loader does, and
    for the `mpirun` that a shell would start, and reads their versions from their files. Nothing is run. The
    check applies to a MindSpore for GPUs, if this machine has a GPU or `--expect gpu` is given. It is skipped
    if MS_ROLE, MS_WORKER_NUM or MS_SCHED_HOST says that the processes of MindSpore rendezvous without MPI.

    - `openmpi.missing`: libmpi is not found. An error if a variable says that the job has several processes,
      otherwise a warning, and information if the machine has one GPU.
    - `openmpi.several`: the loaded library has a different version than the launcher's own.
    - `openmpi.other-mpi`: the first `mpirun` in PATH belongs to MPICH or Intel MPI: each process would run as
      the only one.
    - `openmpi.too-old`: older than 4.0.3, with which MindSpore's guide was written. Information.
    - `openmpi.no-launcher`: there is no `mpirun` in PATH. Information, because Slurm's `srun` can start the
      job too.
    - `openmpi.root`: mpirun refuses to run as root unless root is explicitly allowed. Information.

    ## Why it matters

    `Loading libgpu_collective.so failed`. With the launcher of another MPI every process is rank 0 of 1 and
    trains alone.

    ## Fix safety

    `export` lines for you to run; nothing is written. In containers it is usual to run as root; elsewhere it
    is not advised.

    ## References

    - MindSpore, installation for GPUs and starting with mpirun.
    - Open MPI FAQ: running as root.
    """
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.checks.gpu._communication import needs_no_mpi

    if not gpu_expected(host):
        raise Skip(_("this machine has no GPU, and none is expected"))
    is_image = host.options.root is not None
    if needs_no_mpi(host):
        raise Skip(_("the job's processes rendezvous without MPI"))
    from npudoctor.facts.gpu.nccl import find_collectives
    from npudoctor.facts.job import process as job
    from npudoctor.facts.job.openmpi import find_library, needed_name

    installed = job.frameworks(host, "mindspore")
    folder = installed[0].modules[0].rpartition("/")[0] if installed else ""
    name = needed_name(host, find_collectives(host, folder)) if installed else None
    if name is None:
        raise Skip(_("no MindSpore that needs MPI is installed in {python}", python=host.interpreter.label))
    mpi = find_library(host, name)
    facts = {"library": mpi.path, "version": mpi.version} if mpi else {"library": None}
    yield Facts(facts)
    if mpi is None:
        from npudoctor.checks.gpu._communication import communication_severity

        yield Finding(
            "openmpi.missing",
            _(
                "MindSpore's GPU communication needs {name} of Open MPI, which the loader does not find",
                name=name,
            ),
            severity=communication_severity(host),
            action=Action.CONFIG,
        )
    elif _is_old(mpi.version, mpi.exact):
        yield _report_too_old(mpi, LEAST)
    if not is_image and not host.variables.get(INSIDE):
        yield from _judge_launcher(host, name, mpi.version if mpi and mpi.exact else None)


def _judge_launcher(host: Host, name: str, version: Optional[str]) -> Iterator[Finding]:
    """Judge mpirun, if the processes are not started yet. `version`: that of the loaded library, None if
    unknown."""
    from npudoctor.facts.job.openmpi import find_launcher, find_library_of, is_other_mpi

    path = find_launcher(host)
    if path is None:
        # Slurm's srun can start the job without mpirun.
        if version is not None:
            yield Finding(
                "openmpi.no-launcher", _("Open MPI's library is installed, but mpirun is not in PATH")
            )
        return
    # The launcher of MPICH or Intel MPI starts each process as rank 0 of 1.
    if is_other_mpi(host, path):
        yield _report_other_mpi(host, path)
        return
    own = find_library_of(host, path, name)
    if own and own.exact and version and own.version != version:
        yield _report_several(path, own, version)
    if host.identity.is_root and not all(host.variables.get(name) == "1" for name in ROOT):
        yield _report_root()


def _is_old(version: Optional[str], exact: bool) -> bool:
    """Whether it is older; where only its series is known, the series must be."""
    if version is None:
        return False
    from npudoctor.facts.gpu.cuda import version_key

    least = version_key(LEAST)
    return version_key(version) < (least if exact else least[:2])


def _report_too_old(mpi: Mpi, least: str) -> Finding:
    return Finding(
        "openmpi.too-old",
        _(
            "Open MPI is {version}; MindSpore's guide uses {least}",
            version=mpi.version,
            least=least,
        ),
        evidence=(mpi.path,),
    )


def _report_other_mpi(host: Host, path: str) -> Finding:
    return Finding(
        "openmpi.other-mpi",
        _(
            "the first mpirun in PATH is not Open MPI's: {path} is {real}",
            path=path,
            real=host.files.real(path) or path,
        ),
        action=Action.CONFIG,
    )


def _report_several(path: str, own: Mpi, version: str) -> Finding:
    return Finding(
        "openmpi.several",
        _(
            "{path} belongs to Open MPI {own}, but the loaded library is {version}",
            path=path,
            own=own.version,
            version=version,
        ),
        evidence=(own.path,),
        action=Action.CONFIG,
    )


def _report_root() -> Finding:
    return Finding(
        "openmpi.root",
        _(
            "mpirun refuses to run as root unless {names} are 1 or --allow-run-as-root is passed",
            names=", ".join(ROOT),
        ),
        action=Action.CONFIG,
        fix=Fix(
            _("allow mpirun to run as root, for example in a container"),
            tuple(Export(name, "1") for name in ROOT),
            tuple(f"unset {name}" for name in ROOT),
            Risk.MANUAL,
            needs_root=False,
        ),
    )
