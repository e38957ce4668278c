"""What dead jobs left: processes, memory, locks, and what a killed cache server does not take along."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.checks.leftovers.leftovers_machine import Leftovers, key_of, logged, spilling
from tests.scenarios.fault import fault
from tests.scenarios.machines import HOME, Machine
from tests.scenarios.system import NOW, USER, process
from tests.scenarios.variants import of_root

from npudoctor.testing import Node

JOB = "0::/system.slice/slurmstepd.scope/job_4242/step_0/user/task_0\n"
CONTAINER = f"0::/system.slice/docker-{'5f' * 32}.scope\n"
GIB = 1 << 30
OLD = NOW - 7200


def served(name: str, code: str, leave: Any) -> None:
    """What a dead server left; root looks."""

    def breaks(machine: Machine) -> None:
        of_root(machine)
        machine.leaves = leave

    fault(name, f"cache-server.{code}")(breaks)


def _segment(left: Leftovers) -> None:
    left.segment(1, key_of(left.socket(50052)))


def _attached(left: Leftovers) -> None:
    key = key_of(left.socket(50053))
    left.segment(2, key, nattch=1)
    left.client(4711, 2, key)


def _socket(left: Leftovers) -> None:
    left.socket(50054)


def _spill(left: Leftovers) -> None:
    left.log(spilling(left.spill("a")))


def _without_socket(left: Leftovers) -> None:
    left.segment(4, 0x61000004)


def _by_its_log(left: Leftovers) -> None:
    left.log(logged(left.segment(3, 0x61000003)))


served("a killed cache server left its memory", "orphan-segment", _segment)
served("a cleaner of /tmp took the socket of a killed cache server", "orphan-segment", _by_its_log)
served("a pipeline still holds the memory of a killed cache server", "client-attached", _attached)
served("a killed cache server left its socket alone", "orphan-socket", _socket)
served("a killed cache server left spilled data", "orphan-spill", _spill)
served("memory as of a cache server, and nothing that proves it", "unproven", _without_socket)


def big(name: str, code: str, file: str, **more: Any) -> None:
    """Two GiB in /dev/shm of two hours ago."""

    def breaks(machine: Machine) -> None:
        of_root(machine)
        node = Node(b"", uid=USER, mtime=OLD, held=2 * GIB, permissions=0o600, **more)
        machine.files[f"/dev/shm/{file}"] = node

    fault(name, f"shared-memory.{code}")(breaks)


big("PyTorch's data loaders were killed", "left-over", "torch_4000_123_0")
big("Paddle's data loaders were killed", "left-over", "paddle_4000_123_7")
big("memory of Python that nobody holds", "unproven", "psm_1a2b3c4d")


@fault("a training outlived its Slurm job and holds an NPU", "stale-processes.left-behind")
def _(machine: Machine) -> None:
    of_root(machine)
    machine.files.update(process(4242, "python3", JOB, descriptors={3: "/dev/davinci0"}))


@fault("a process of a container that is gone", "stale-processes.left-behind")
def _(machine: Machine) -> None:
    of_root(machine)
    machine.files.update(process(4243, "python3", CONTAINER, uid=0))


@fault("a process hangs in the driver", "stale-processes.stuck")
def _(machine: Machine) -> None:
    of_root(machine)
    machine.files.update(process(4244, "python3", state="D", descriptors={3: "/dev/davinci1"}))


@fault("a build of an extension was killed", "temp-files.stale-lock")
def _(machine: Machine) -> None:
    lock = f"{HOME}/.cache/torch_extensions/py311_cpu/fused_adam/lock"
    machine.files[lock] = replace(Node(b"", uid=USER, permissions=0o600), mtime=OLD)
