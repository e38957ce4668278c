"""Runs the command on the nodes by srun, inside or outside an allocation: no ssh, and Slurm ends what it
started.

One srun per node: with one for all nodes, Slurm aborts every task when one node does not answer, and outside
an allocation it waits until all nodes are free at the same time.
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
from npudoctor.fleet.programs import find_trusted_program
from npudoctor.fleet.remote import command_words
from npudoctor.fleet.slurm_states import find_closed_nodes

_WORKERS = load("ClusterShell.Worker.Exec")
ExecClient: Any = _WORKERS.ExecClient
ExecWorker: Any = _WORKERS.ExecWorker

_JOB = "SLURM_JOB_ID"  # set inside an allocation
_ENDING_SECONDS = 5.0  # how long all sruns together may take to end their steps before they are killed
_SPARE_SECONDS = 30.0  # between our time limit and Slurm's, which ends the step if nothing else does

# Variables that srun reads as options (srun(1), INPUT ENVIRONMENT VARIABLES) and that describe another step:
# how tasks are distributed, what each of them gets, where output goes. No option resets them, so they are
# unset. What a site must choose stays: SLURM_PARTITION, SLURM_ACCOUNT, SLURM_QOS, SLURM_RESERVATION,
# SLURM_GRES.
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
# Resources of the whole job, too much for a step on one node. Outside an allocation the user chose them.
_OF_THE_JOB = (
    "SLURM_GPUS SLURM_GPUS_PER_TASK SLURM_GPUS_PER_NODE SLURM_STEP_GRES SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU "
    "SLURM_MEM_PER_NODE SLURM_TIMELIMIT SLURM_EXCLUSIVE"
).split()
# What Slurm tells a task about its step, here the step of npudoctor; the job to check is another one.
_STEP = (
    "SLURM_PROCID SLURM_LOCALID SLURM_NODEID SLURM_NTASKS SLURM_NPROCS SLURM_NNODES SLURM_TASKS_PER_NODE "
    "SLURM_STEP_NUM_NODES SLURM_STEP_NUM_TASKS SLURM_STEP_TASKS_PER_NODE SLURM_STEP_NODELIST SLURM_GTIDS "
    "SLURM_CPUS_PER_TASK PMI_RANK PMI_SIZE"
)
_NODE = "@node@"  # placeholder for the node in the words of srun
# A Slurm whose only node is called localhost starts jobs for any node name there.
_CHECK_NODE = (
    f'[ "$SLURMD_NODENAME" = {_NODE} ] || {{ echo "Slurm started this on $SLURMD_NODENAME" >&2; exit 1; }}; '
)
_ALLOCATION = "SLURM_JOB_NUM_NODES SLURM_JOB_NODELIST SLURM_NODELIST SLURM_JOB_CPUS_PER_NODE"


def gather(gathering: Gathering, turn: Callable[[], None]) -> None:
    """Ask all nodes as `ask_all` does; inside an allocation by steps of it, else by one job per node."""
    command = _srun_words(gathering, os.environ)
    ending = _EndingSteps()
    if _JOB not in os.environ:
        for node, why in find_closed_nodes(gathering.request.nodes).items():
            gathering.end(node, why=why)

    def start(task: Any, handler: Any) -> Any:
        worker = _SrunWorker(
            ",".join(gathering.pending_nodes),
            handler=handler,
            timeout=gathering.request.seconds,
            command=command,
            stderr=True,
        )
        worker.ending = ending
        task.schedule(worker)
        return worker

    if not gathering.pending_nodes:
        return
    try:
        ask_all(gathering, turn, start)
    finally:
        ending.wait()


def _srun_words(gathering: Gathering, variables: Mapping[str, str]) -> tuple[str, ...]:
    """The words of the srun command, with `_NODE` in place of the node."""
    request = gathering.request
    in_allocation = _JOB in variables
    dropped_names = (*_OF_THE_STREAMS, *_OF_THE_SHAPE, *(_OF_THE_JOB if in_allocation else ()))
    unset = [word for name in dropped_names if name in variables for word in ("-u", name)]
    minutes = math.ceil((request.seconds + _SPARE_SECONDS) / 60)
    # SLURM_OVERLAP instead of --overlap: Slurm before 20.11 rejects the option and shares without it.
    # --mpi=none, --kill-on-bad-exit=0: else MpiDefault and KillOnBadExit of slurm.conf apply.
    return (
        *(find_trusted_program("env"), *unset, "SLURM_OVERLAP=1", find_trusted_program("srun")),
        *("--quiet", "--job-name=npudoctor", "--nodes=1", "--ntasks=1", "--mpi=none"),
        *(
            f"--nodelist={_NODE}",
            f"--immediate={math.ceil(request.connect_seconds)}",
            f"--time={minutes}",
            "--kill-on-bad-exit=0",
        ),
        *command_words(
            request,
            gathering.mark,
            talking=gathering.converses,
            before=f"{_CHECK_NODE}unset {_STEP}{'' if in_allocation else ' ' + _ALLOCATION}; ",
        ),
    )


class _SrunClient(ExecClient):  # type: ignore[misc]
    """The srun of one node. It gets time to end its step before it is killed: its processes would stay."""

    def _build_cmd(self) -> tuple[list[str], None]:
        """The command and its environment; called by ClusterShell."""
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


class _SrunWorker(ExecWorker):  # type: ignore[misc]
    """The worker with one srun per node."""

    SHELL_CLASS = _SrunClient
    ending: _EndingSteps


class _EndingSteps:
    """The sruns that were told to end their steps and are still running.

    Their standard input stays open: when it is closed, the command on the node ends but its children do not,
    and without control groups Slurm cannot find them any more.
    """

    def __init__(self) -> None:
        self._sruns: list[tuple[Any, Optional[int]]] = []

    def begin(self, srun: Any, stdin: Optional[int]) -> None:
        """Send SIGTERM to a srun. `stdin`: the descriptor of its standard input, None when it has none."""
        srun.terminate()
        self._sruns.append((srun, None if stdin is None else os.dup(stdin)))

    def forget_ended(self) -> None:
        """Close the standard input of the sruns that have ended, and forget them."""
        for srun, stdin in self._sruns:
            if srun.poll() is not None and stdin is not None:
                os.close(stdin)
        self._sruns = [row for row in self._sruns if row[0].returncode is None]

    def wait(self) -> None:
        """Wait for all; a srun that hangs is killed, and Slurm's time limit ends its step."""
        until = time.monotonic() + _ENDING_SECONDS
        while self._sruns and time.monotonic() < until:
            time.sleep(0.02)
            self.forget_ended()
        for srun, _stdin in self._sruns:
            srun.kill()
            srun.wait()
        self.forget_ended()
