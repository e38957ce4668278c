"""Asks nodes by srun, inside an allocation or outside one: no ssh, and Slurm ends what it started.

One srun for each node: of one for all, Slurm aborts every task when one node does not answer, and outside an
allocation it waits until all nodes are free at the same time.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from typing import Any, Callable, Optional

from npudoctor.core.optional import load
from npudoctor.fleet.answers import ask_all
from npudoctor.fleet.gathering import Gathering
from npudoctor.fleet.programs import trusted_program
from npudoctor.fleet.remote import words
from npudoctor.fleet.slurm_states import closed_nodes

_WORKERS = load("ClusterShell.Worker.Exec")
ExecClient: Any = _WORKERS.ExecClient
ExecWorker: Any = _WORKERS.ExecWorker

_JOB = "SLURM_JOB_ID"  # that of the allocation that we run in
_ENDING_SECONDS = 5.0  # how long all sruns together may take to end their steps, before they are killed
_SPARE_SECONDS = 30.0  # between our time limit and that of Slurm, which ends the step if nobody else can

# Variables that srun reads as options of its own, and that are another step's: how its tasks are spread, what
# each of them gets, where their output goes. No option takes them back. What a site must choose stays:
# SLURM_PARTITION, SLURM_ACCOUNT, SLURM_QOS, SLURM_RESERVATION, SLURM_GRES.
_OF_THE_STREAMS = (
    "SLURM_LABELIO SLURM_UNBUFFEREDIO SLURM_STDINMODE SLURM_STDOUTMODE SLURM_STDERRMODE SLURM_OPEN_MODE "
    "SLURM_MULTI_PROG SLURM_PROLOG SLURM_EPILOG SLURM_DEBUG SLURM_BCAST SLURM_HET_SIZE SLURM_WORKING_DIR "
    "SLURM_REMOTE_CWD SLURM_TEST_EXEC SLURM_EXIT_ERROR SLURM_EXIT_IMMEDIATE SLURM_DEPENDENCY SLURM_SIGNAL"
).split()
_OF_THE_SHAPE = (
    "SLURM_NNODES SLURM_NPROCS SLURM_NTASKS SLURM_NTASKS_PER_CORE SLURM_NTASKS_PER_GPU SLURM_NTASKS_PER_NODE "
    "SLURM_NTASKS_PER_SOCKET SLURM_DISTRIBUTION SLURM_DIST_PLANESIZE SLURM_SPREAD_JOB SLURM_USE_MIN_NODES "
    "SLURM_CORE_SPEC SLURM_THREAD_SPEC SLURM_THREADS SLURM_THREADS_PER_CORE SLURM_HINT SLURM_CPU_BIND "
    "SLURM_MEM_BIND SLURM_GPU_BIND SLURM_CPUS_PER_GPU SRUN_CPUS_PER_TASK SLURM_CPUS_PER_TASK SLURM_EXACT "
    "SLURM_RESV_PORTS SLURM_NETWORK"
).split()
# Of the whole job, too much for a step of one node. Outside an allocation they are a person's wish.
_OF_THE_JOB = (
    "SLURM_GPUS SLURM_GPUS_PER_TASK SLURM_GPUS_PER_NODE SLURM_STEP_GRES SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU "
    "SLURM_MEM_PER_NODE SLURM_TIMELIMIT SLURM_EXCLUSIVE"
).split()
# What Slurm tells a task about its step, and so about our question; the job that is judged is another one.
_STEP = (
    "SLURM_PROCID SLURM_LOCALID SLURM_NODEID SLURM_NTASKS SLURM_NPROCS SLURM_NNODES SLURM_TASKS_PER_NODE "
    "SLURM_STEP_NUM_NODES SLURM_STEP_NUM_TASKS SLURM_STEP_TASKS_PER_NODE SLURM_STEP_NODELIST SLURM_GTIDS "
    "SLURM_CPUS_PER_TASK PMI_RANK PMI_SIZE"
)
_NODE = "@node@"  # in the words of srun: the node
# A Slurm whose only node is called localhost takes every name for it.
_CHECK_NODE = (
    f'[ "$SLURMD_NODENAME" = {_NODE} ] || {{ echo "Slurm started this on $SLURMD_NODENAME" >&2; exit 1; }}; '
)
_ALLOCATION = "SLURM_JOB_NUM_NODES SLURM_JOB_NODELIST SLURM_NODELIST SLURM_JOB_CPUS_PER_NODE"


def gather(gathering: Gathering, turn: Callable[[], None]) -> None:
    """Ask all nodes, as `ask_all` says. In an allocation by steps of it, else by a job for each node."""
    command = _command(gathering, os.environ)
    ending = _Ending()
    if _JOB not in os.environ:
        for node, why in closed_nodes(gathering.request.nodes).items():
            gathering.end(node, why=why)

    def start(task: Any, handler: Any) -> Any:
        worker = _Sruns(
            ",".join(gathering.left),
            handler=handler,
            timeout=gathering.request.seconds,
            command=command,
            stderr=True,
        )
        worker.ending = ending
        task.schedule(worker)
        return worker

    if not gathering.left:
        return
    try:
        ask_all(gathering, turn, start)
    finally:
        ending.wait()


def _command(gathering: Gathering, variables: Mapping[str, str]) -> tuple[str, ...]:
    """The words of srun; where the node stands in them, `_NODE` does."""
    request = gathering.request
    inside = _JOB in variables
    dropped = (*_OF_THE_STREAMS, *_OF_THE_SHAPE, *(_OF_THE_JOB if inside else ()))
    unset = [word for name in dropped if name in variables for word in ("-u", name)]
    minutes = math.ceil((request.seconds + _SPARE_SECONDS) / 60)
    # SLURM_OVERLAP: an older Slurm does not know the option, and shares without it.
    return (
        *(trusted_program("env"), *unset, "SLURM_OVERLAP=1", trusted_program("srun")),
        *("--quiet", "--job-name=npudoctor", "--nodes=1", "--ntasks=1", "--mpi=none"),
        *(
            f"--nodelist={_NODE}",
            f"--immediate={math.ceil(request.connect_seconds)}",
            f"--time={minutes}",
            "--kill-on-bad-exit=0",
        ),
        *words(
            request,
            gathering.mark,
            talking=gathering.converses,
            before=f"{_CHECK_NODE}unset {_STEP}{'' if inside else ' ' + _ALLOCATION}; ",
        ),
    )


class _Srun(ExecClient):  # type: ignore[misc]
    """The srun of one node. It is never killed while it can end its step: what it started would stay."""

    def _build_cmd(self) -> tuple[list[str], None]:
        """Called by ClusterShell."""
        return [word.replace(_NODE, self.key) for word in self.command], None

    def _close(self, abort: bool, timeout: bool) -> None:
        self.worker.ending.forget_ended()
        if not abort or self.popen.poll() is not None:
            super()._close(abort, timeout)
            return
        stdin = self.streams.get(self.worker.SNAME_STDIN)
        self.worker.ending.begin(self.popen, stdin.fd if stdin else None)
        self.streams.clear()
        self.invalidate()
        if timeout:
            self.worker._on_node_timeout(self.key)
        self.worker._check_fini()


class _Sruns(ExecWorker):  # type: ignore[misc]
    """One for each node."""

    SHELL_CLASS = _Srun
    ending: _Ending


class _Ending:
    """The sruns that were told to end their steps, and did not yet.

    Their standard input stays open: at its end the command would be ended on the node, but not what it
    started, and Slurm cannot find that any more without control groups.
    """

    def __init__(self) -> None:
        self._sruns: list[tuple[Any, Optional[int]]] = []

    def begin(self, srun: Any, stdin: Optional[int]) -> None:
        """Tell it to end."""
        srun.terminate()
        self._sruns.append((srun, None if stdin is None else os.dup(stdin)))

    def forget_ended(self) -> None:
        """Let go of what needs no waiting any more."""
        for srun, stdin in self._sruns:
            if srun.poll() is not None and stdin is not None:
                os.close(stdin)
        self._sruns = [row for row in self._sruns if row[0].returncode is None]

    def wait(self) -> None:
        """Wait for all; whoever hangs is killed, and Slurm's time limit ends its step."""
        until = time.monotonic() + _ENDING_SECONDS
        while self._sruns and time.monotonic() < until:
            time.sleep(0.02)
            self.forget_ended()
        for srun, _stdin in self._sruns:
            srun.kill()
            srun.wait()
        self.forget_ended()
