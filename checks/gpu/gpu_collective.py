"""Can MindSpore load its library for communication between GPUs?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Union

from npudoctor import ERROR, Action, Facts, Finding, Host, Scope, Skip, _, check
from npudoctor.facts.job.expected_accelerator import gpu_expected

if TYPE_CHECKING:
    from npudoctor.host.libraries.loader import MissingLibrary

# The variant of MindSpore's library that needs MPI.
WITH_MPI = "libgpu_collective.so"


@check(
    "gpu-collective",
    scope=Scope.JOB,
    tags={"nvidia", "mindspore"},
    needs=("framework", "mindspore", "mindspore-gpu"),
    codes={"gpu-collective.not-loadable": ERROR},
)
def gpu_collective(host: Host) -> Iterator[Union[Finding, Facts]]:
    """MindSpore can load its GPU communication library.

    ## What it does

    Reads which libraries libgpu_collective.so and libnvidia_collective.so of the installed MindSpore need,
    and looks for each one as the loader does: RPATH, LD_LIBRARY_PATH, RUNPATH, ld.so.cache, the default
    folders. Nothing is loaded. The check applies to a MindSpore for GPUs, if this machine has a GPU or
    `--expect gpu` is given.

    - `gpu-collective.not-loadable`: a library that one of them needs is not found or is broken, in most cases
      libnccl or libmpi. An error if a variable says that the job has several processes, otherwise a warning,
      and information if the machine has one GPU. If MS_ROLE, MS_WORKER_NUM or MS_SCHED_HOST is set,
      libgpu_collective.so, which needs MPI, is not examined.

    ## Why it matters

    `Loading libgpu_collective.so failed. Many reasons could cause this`: MindSpore names three, and this one
    is the most frequent. The library is loaded when communication is initialized, not when MindSpore is
    imported.

    ## References

    - MindSpore FAQ: Loading libgpu_collective.so failed.
    - ld.so(8), dlopen(3).
    """

    if not gpu_expected(host):
        raise Skip(_("this machine has no GPU, and none is expected"))
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.checks.gpu._communication import needs_no_mpi
    from npudoctor.facts.gpu.nccl import find_collectives
    from npudoctor.facts.job import process as job

    installed = job.frameworks(host, "mindspore")
    module = installed[0].modules[0] if installed else ""
    libraries = find_collectives(host, module.rpartition("/")[0]) if installed else []
    if not libraries:
        raise Skip(
            _(
                "no MindSpore with GPU communication is installed in {python}",
                python=host.interpreter.label,
            )
        )
    if needs_no_mpi(host):
        libraries = [path for path in libraries if not path.endswith(WITH_MPI)] or libraries
    missing_by_path = {}
    for path in libraries:
        loader = job.loader(host)
        loader.dlopen(module)
        count_before = len(loader.missing)
        loader.dlopen(path)
        missing_by_path[path] = loader.missing[count_before:]
    yield Facts({path: [library.name for library in missing] for path, missing in missing_by_path.items()})
    for path, missing in missing_by_path.items():
        if missing:
            yield _finding(host, path, missing)
            return  # what the other needs is not found either


def _finding(host: Host, path: str, missing: Sequence[MissingLibrary]) -> Finding:
    from npudoctor.checks.gpu._communication import communication_severity

    names = list(dict.fromkeys(library.name for library in missing))
    causes = [("libnccl", "nccl-version.missing"), ("libmpi", "openmpi.missing")]
    known_codes = [code for start, code in causes if any(name.startswith(start) for name in names)]
    other_names = [name for name in names if not name.startswith(("libnccl", "libmpi"))]
    return Finding(
        "gpu-collective.not-loadable",
        _(
            "MindSpore cannot load {library}: the loader does not find {names}",
            library=path.rpartition("/")[2],
            names=", ".join(names),
        ),
        severity=communication_severity(host),
        evidence=tuple(
            (library.broken or _("{name} is needed by {path}")).format(
                name=library.name, path=library.needed_by
            )
            for library in missing
        ),
        action=Action.CONFIG,
        # Only what those checks say too is an echo of them.
        echo_of=() if other_names else tuple(known_codes),
    )
