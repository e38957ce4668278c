"""Do the ranks of a node start more threads than it has CPUs?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, Facts, Finding, Host, Scope, Skip, _, change_variable, check

NAME = "OMP_NUM_THREADS"
# Set by torchrun, Open MPI and MPICH.
RANKS = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")


@check(
    "omp-threads",
    scope=Scope.JOB,
    needs=("npu", "gpu"),
    advisory=True,
    codes={"omp-threads.unset": INFO, "omp-threads.too-many": INFO, "omp-threads.not-a-number": INFO},
)
def omp_threads(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Ranks of a node do not oversubscribe its CPUs.

    ## What it does

    Multiplies `OMP_NUM_THREADS` by the number of ranks of this node (from the launcher, else one for each
    accelerator), and compares that with the CPUs that this shell may use.

    - `omp-threads.unset`: the variable is not set, and several ranks would run on this node. torchrun then
      sets it to 1; mpirun, srun and custom scripts do not.
    - `omp-threads.too-many`: all ranks together may start more threads than there are CPUs.
    - `omp-threads.not-a-number`: OpenMP does not recognize the value and uses its own default.

    ## Why it matters

    Without the variable each rank starts as many threads as there are CPUs, for every operator on the CPU:
    eight ranks on 192 CPUs may have 1536 threads, which then wait for each other.

    The best number depends on the job: 1 is often too few for data preparation, and one thread for each CPU
    leaves none for the data loader's processes. Half of the value shown is a good second try.

    Gain: the sources state no figure; PyTorch's launcher says "tune the variable for optimal performance in
    your application".

    ## Fix safety

    The line changes the variable of the shell that starts the job.

    ## References

    - PyTorch, torch.distributed.run (torchrun), OMP_NUM_THREADS; Performance Tuning Guide, CPU specific
      optimizations.
    - OpenMP specification, OMP_NUM_THREADS.
    """
    ranks = _count_ranks(host)
    if ranks < 2:
        raise Skip(_("one rank runs on this node and can use all CPUs"))
    cpus = host.resources.cpus(host.options.env_of)
    value = host.variables.get(NAME, "").strip()
    # OMP_NUM_THREADS is a list with a number for each level of nested parallel regions: the first one counts.
    # None if OpenMP does not understand it.
    levels = [level.strip() for level in value.split(",")]
    is_valid = all(level.isascii() and level.isdigit() and int(level[:9]) for level in levels)
    threads = int(levels[0][:9]) if is_valid else None
    yield Facts({"cpus": cpus, "ranks": ranks, "threads": threads})
    words = {"name": NAME, "value": value, "cpus": cpus, "ranks": ranks}
    if not value:
        yield _finding(
            "omp-threads.unset",
            _(
                "{name} is not set: each of {ranks} ranks may start {cpus} threads on the {cpus} CPUs",
                **words,
            ),
            host,
            cpus // ranks,
        )
    elif threads is None:
        yield _finding(
            "omp-threads.not-a-number",
            _(
                "{name} is {value}, which OpenMP does not recognize: each rank may start {cpus} threads",
                **words,
            ),
            host,
            cpus // ranks,
        )
    elif threads * ranks > cpus and threads > 1:
        message = _(
            "{name} is {value}: {ranks} ranks may start {all} threads on {cpus} CPUs",
            **words,
            all=threads * ranks,
        )
        yield _finding("omp-threads.too-many", message, host, cpus // ranks)


def _finding(code: str, message: str, host: Host, share: int) -> Finding:
    title = _("give each rank its share of the CPUs")
    return Finding(
        code, message, fix=change_variable(title, NAME, str(max(1, share)), host.variables.get(NAME))
    )


def _count_ranks(host: Host) -> int:
    """Return the number of ranks on this node: as a launcher counted them, else one for each accelerator."""
    for name in RANKS:
        value = host.variables.get(name, "")
        if value.isascii() and value.isdigit():
            return int(value[:6])
    return len(host.npus.nodes) or len(host.gpus.nodes)
