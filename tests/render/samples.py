"""A report in which every kind of row and finding occurs once."""

from __future__ import annotations

import dataclasses

from npudoctor.core.model import (
    Action,
    Finding,
    Fix,
    HostFacts,
    Ignored,
    PythonFacts,
    Report,
    Result,
    Risk,
    Scope,
    Severity,
    Status,
    Target,
)
from npudoctor.fixing.steps.steps import Command, Export, RemoveSharedMemory, RemoveSocket
from npudoctor.runner import verdict
from npudoctor.runner.verdict import verdict_line

SEGMENT = RemoveSharedMemory(32769, 0x6100C354, 4242, 1_790_000_000, 1_790_000_300, 4 << 30, 1000)
SOCKET = RemoveSocket(
    "/tmp/cache_server_p50052", 64768, 131, 1_790_000_000_000_000_000, 1000, 50052, (32769,)
)

ROWS = (
    Result(
        "cache-server",
        "No dead cache server left anything behind",
        "leftovers",
        Status.PROBLEM,
        tags=("ipc", "mindspore"),
        seconds=0.51,
        facts={"candidates": 2},
        findings=(
            Finding(
                "cache-server.orphan-segment",
                "segment 32769 of 4.0 GiB belonged to the cache server of port 50052 (pid 4242): it is dead",
                Severity.ERROR,
                ("key 0x6100c354, nattch 0", "pid 4242 does not exist"),
                action=Action.CLEANUP,
                fix=Fix("remove the segment", (SEGMENT,), risk=Risk.SAFE, needs_root=False),
            ),
            Finding(
                "cache-server.orphan-socket",
                "socket file of a dead cache server",
                Severity.WARNING,
                fix=Fix("remove the socket file", (SOCKET,), ("start the server again",), Risk.SAFE),
            ),
            Finding("cache-server.unproven", "could be one", Severity.WARNING, ignored=Ignored("known")),
        ),
    ),
    Result(
        "hccl-ports",
        "The ports are free",
        "network",
        Status.PROBLEM,
        scope=Scope.JOB,
        findings=(
            Finding(
                "hccl-ports.dead",
                "held by what was left behind",
                Severity.ERROR,
                caused_by="cache-server.orphan-segment",
                device="3",
            ),
        ),
    ),
    Result(
        "aicpu-path",
        "The AICPU path is set",
        "cann",
        Status.PROBLEM,
        findings=(
            Finding(
                "aicpu-path.unset",
                "ASCEND_AICPU_PATH is not set",
                Severity.WARNING,
                action=Action.CONFIG,
                fix=Fix("set it", (Export("ASCEND_AICPU_PATH", "/usr/local/A b"),), risk=Risk.MANUAL),
            ),
        ),
    ),
    Result(
        "shared-memory",
        "Other segments",
        "leftovers",
        Status.OK,
        findings=(Finding("shared-memory.foreign", "3 segments of postgres", Severity.INFO, ("shmid 7",)),),
    ),
    Result("scipy-version", "SciPy suits", "python", Status.SKIPPED, needed=False, reason="no MindSpore"),
    Result("firewall", "No rule blocks", "network", Status.UNKNOWN, needed=False, reason="only root sees it"),
    Result("driver", "The driver loads", "device", Status.TIMEOUT, reason="no answer within 10 s"),
    Result("mine", "Mine", "drop-in", Status.CRASHED, reason="KeyError: 'x'"),
    Result("theirs", "this check could not be loaded", "drop-in", Status.BROKEN, reason="others write it"),
)  # fmt: skip


def report(*rows: Result, fail_on: Severity = Severity.ERROR) -> Report:
    """A report of these rows, or of all."""
    told = rows or ROWS
    reached, status = verdict.decide_verdict(told, fail_on)
    return Report(
        "0.1.0",
        "2026-11-21T07:00:00Z",
        1.234,
        "full",
        "all",
        HostFacts("node7", "b0075", "aarch64", "Linux", "5.10.0", "openEuler 22.03", True, "alice"),
        Target(
            "npu",
            "Ascend 910B",
            8,
            PythonFacts("/opt/env/bin/python3", "3.11.7"),
            "path",
            None,
            "24.1.rc3",
            "8.1.RC1",
            {"torch": "2.7.1", "torch-npu": "2.7.1"},
            None,
        ),
        reached,
        status,
        verdict_line(reached, told, fail_on),
        verdict.count_rows(told),
        told,
    )


def healed_by(*argv: str) -> Result:
    """A row whose one finding is healed by a command that is not proven safe."""
    finding = Finding("driver.old", "the driver is old", Severity.ERROR, fix=Fix("update", (Command(argv),)))
    row = Result("driver", "The driver is new", "device", Status.PROBLEM, findings=(finding,))
    return dataclasses.replace(row)
