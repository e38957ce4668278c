"""Memory of the machine and of control groups, of both versions; a real group where one can be made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest

from npudoctor import Status
from npudoctor.checks.host.memory import memory
from npudoctor.testing import Asked, Content, Limit, Memory, ask, fake_host, unreadable

GIB = 1 << 30
FREE = Limit(None, None)
V2 = "/sys/fs/cgroup/kubepods/pod1"
V1 = "/sys/fs/cgroup/memory/slurm/job_7"


def told(
    available: int = 200 * GIB,
    files: Optional[dict[str, Content]] = None,
    mapped: Optional[Limit] = FREE,
) -> Asked:
    limits = {"Max address space": mapped} if mapped else {}
    return ask(memory, fake_host(files, memory=Memory(256 * GIB, available), limits=limits))


@pytest.mark.parametrize(
    ("soft", "hard", "code", "commands"),
    [
        (None, None, None, ()),
        (GIB, None, None, ()),
        (GIB - 1, None, "memory.address-space", ("ulimit -Sv unlimited",)),
        (40960000, 4 * GIB, "memory.address-space", (f"ulimit -Sv {4 * GIB >> 10}",)),
        (40960000, 40960000, "memory.address-space", ()),
    ],
)
def test_what_a_process_may_map(
    soft: Optional[int], hard: Optional[int], code: Optional[str], commands: tuple[str, ...]
) -> None:
    asked = told(mapped=Limit(soft, hard))
    assert asked.codes == ([code] if code else [])
    assert asked.status is (Status.PROBLEM if code else Status.OK)
    for finding in asked.findings:
        assert finding.fix is not None and finding.fix.commands == commands


def test_a_kernel_that_does_not_tell_what_may_be_mapped() -> None:
    asked = told(mapped=None)
    assert asked.status is Status.UNKNOWN
    assert asked.reason == "the kernel does not report the limit Max address space"


@pytest.mark.parametrize(("available", "status"), [(200 * GIB, Status.OK), (2 * GIB, Status.UNKNOWN)])
def test_where_only_the_least_is_known(available: int, status: Status) -> None:
    """Without /proc/meminfo: what the kernel would give back counts as taken."""
    asked = ask(
        memory,
        fake_host(memory=Memory(256 * GIB, available, "it is gone"), limits={"Max address space": FREE}),
    )
    assert (asked.status, asked.codes) == (status, [])
    assert asked.tried_by == (("trial-memory",) if status is Status.UNKNOWN else ())


def second(limit: str, used: int, stat: str = "", events: str = "") -> dict[str, Content]:
    """A control group of version 2."""
    return {
        "/proc/self/cgroup": "0::/kubepods/pod1/x\n",
        f"{V2}/memory.max": f"{limit}\n",
        f"{V2}/memory.current": f"{used}\n",
        f"{V2}/memory.stat": stat,
        f"{V2}/memory.events": events,
        f"{V2}/x/memory.max": "max\n",
        f"{V2}/x/memory.current": f"{used}\n",
    }


def first(limit: int, used: int, active: int = 0) -> dict[str, Content]:
    """A control group of version 1."""
    return {
        "/proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/slurm/job_7\n0::/\n",
        f"{V1}/memory.limit_in_bytes": f"{limit}\n",
        f"{V1}/memory.usage_in_bytes": f"{used}\n",
        f"{V1}/memory.stat": (
            f"cache 1\nactive_file 0\ntotal_inactive_file {GIB}\ntotal_active_file {active}\n"
        ),
        f"{V1}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    }


def test_quiet_when_there_is_enough() -> None:
    asked = told()
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["limit"] is None


def test_a_machine_whose_memory_is_used() -> None:
    assert told(3 * GIB).codes == ["memory.nearly-used"]
    assert told(5 * GIB).codes == []


@pytest.mark.parametrize(
    ("files", "codes"),
    [
        (second("max", 5), []),
        (second(str(64 * GIB), 10 * GIB), []),
        (second(str(64 * GIB), 62 * GIB), ["memory.limit-nearly-used"]),
        (second(str(64 * GIB), 62 * GIB, f"inactive_file {20 * GIB}\n"), []),
        (second(str(64 * GIB), 62 * GIB, f"active_file {20 * GIB}\n"), []),
        (second(str(64 * GIB), 62 * GIB, f"slab_reclaimable {20 * GIB}\n"), []),
        (
            second(str(64 * GIB), 62 * GIB, f"file {60 * GIB}\nshmem {60 * GIB}\n"),
            ["memory.limit-nearly-used"],
        ),
        (first(8 * GIB, 9 * GIB, active=6 * GIB), ["memory.killed"]),
        (second(str(64 * GIB), GIB, events="oom 3\noom_kill 1\n"), ["memory.killed"]),
        (second(str(2 * GIB), GIB), ["memory.limit-small"]),
        (second(str(512 * GIB), 511 * GIB), []),  # larger than the machine: no limit
        (first(9223372036854771712, 5), []),
        (first(64 * GIB, 10 * GIB), ["memory.killed"]),
        (first(8 * GIB, 9 * GIB), ["memory.limit-nearly-used", "memory.killed"]),
    ],
)
def test_control_groups(files: dict[str, Content], codes: list[str]) -> None:
    assert told(files=files).codes == codes


def test_cannot_tell() -> None:
    asked = ask(memory, fake_host(limits={"Max address space": FREE}))
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, False)
    assert asked.reason.startswith("psutil cannot be loaded")
    assert told(files={"/proc/self/cgroup": unreadable()}).status is Status.UNKNOWN
    assert ask(memory, fake_host(root="/image")).status is Status.SKIPPED


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told(GIB)
    yield told(files=second(str(2 * GIB), 2 * GIB))
    yield told(files=first(8 * GIB, 9 * GIB))
    yield told(mapped=Limit(40960000, None))
    yield told(mapped=Limit(40960000, 40960000))
    yield told(mapped=None)
    yield ask(memory, fake_host())
