"""Whole machines on a real disk: a user hears what root hears, or that it cannot be told from here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest

from ..scenarios.machines import Machine  # noqa: TID252
from ..scenarios.matrix import FAULTS  # noqa: TID252
from ..scenarios.network import of_two_nodes  # noqa: TID252
from . import staged

# Slow: and it takes our libraries to the system's Python, for which only recent ones are built.
pytestmark = [pytest.mark.needs_root, pytest.mark.slow]

# By name, with who hears of it: what is private to root an ordinary user cannot be told. Those of one machine
# are of different checks, and none of them hides another.
BOTH, ROOT, USER = ("root", "trainer"), ("root",), ("trainer",)
MACHINES = (
    {"an NPU in the state Alarm": BOTH, "localhost as the master of two nodes": BOTH},
    {"an NPU has dropped out": BOTH, "HCCL_IF_IP of the first node on the second": BOTH},
    {"npu-smi: no device is ready": BOTH, "the job is started in a folder of root": USER},
    {"no davinci_manager": BOTH, "the interface has another name on this node": BOTH},
    {
        "the cable of an NPU is out": ROOT,
        "the comments of the document are still in the rank table": BOTH,
    },
    {
        "seconds as a word": BOTH,
        "the addresses of two NPUs are exchanged in the rank table": BOTH,
    },
    {"davinci_manager is for root alone": USER, "a rank that the job does not have": BOTH},
    {"TLS was switched on for one NPU": ROOT, "the list of NPUs does not ascend": BOTH},
)
NAMED = {fault.name: fault for fault in FAULTS}
Reports = list[dict[str, Any]]


@pytest.fixture
def stage(tmp_path: Path, library: Path, need: Callable[..., None]) -> Callable[[Machine], Reports]:
    """Asks for root's report and the user's."""
    need("unshare", "mount", "ip", "nft", "g++")
    return lambda machine: staged.reports(machine, tmp_path, library)


@pytest.fixture(params=["torch", "mindspore"])
def machine(request: pytest.FixtureRequest, lack: Callable[[str], None]) -> Machine:
    """A healthy one."""
    return _healthy(request.param, lack)


def _healthy(framework: str, lack: Callable[[str], None]) -> Machine:
    found = staged.on_this_machine(framework)
    if found is None:
        lack("no CANN goes with the system's Python, or it has none")
    assert found is not None
    return found


def _counting(report: dict[str, Any], check: str = "") -> set[str]:
    """The codes that count and are more than information; what the trial proved has its own name here."""
    found = [(row["check"], finding) for row in report["results"] for finding in row["findings"]]
    causes = {finding["caused_by"] for _check, finding in found if finding["caused_by"]}
    proofs = {code for code in causes if code.startswith("trial-")}
    return {
        finding["code"]
        for name, finding in found
        if finding["severity"] != "info" and check in ("", name)
        if (finding["caused_by"] or "trial-").startswith("trial-") and finding["code"] not in proofs
    }


def _is_blind(row: dict[str, Any]) -> bool:
    """What the user cannot see; and the trial, which is his, and skipped as root."""
    return (row["status"] == "unknown" and not row["needed"]) or row["group"] == "trial"


def _no_crash(reports: Reports) -> None:
    for report in reports:
        bad = [row for row in report["results"] if row["status"] in ("crashed", "timeout", "broken")]
        assert [(row["check"], row["reason"]) for row in bad] == []


@pytest.mark.parametrize("several", [False, True], ids=["one node", "two nodes"])
def test_a_healthy_node_is_ready_for_both(
    machine: Machine, several: bool, stage: Callable[[Machine], Reports]
) -> None:
    if several:
        of_two_nodes(machine)
    reports = stage(machine)
    _no_crash(reports)
    assert [report["host"]["user"] for report in reports] == ["root", "trainer"]
    assert [(_counting(report), report["verdict"]) for report in reports] == [(set(), "ready")] * 2
    for row, same in zip(*(report["results"] for report in reports)):
        assert same["status"] == row["status"] or _is_blind(same), (row["check"], same["reason"])


@pytest.mark.parametrize("broken", MACHINES, ids=" + ".join)
def test_a_fault_is_told_to_whom_it_concerns(
    broken: dict[str, tuple[str, ...]],
    stage: Callable[[Machine], Reports],
    lack: Callable[[str], None],
) -> None:
    machine = _healthy("torch", lack)
    for name in broken:
        machine = NAMED[name].on(machine)
    reports = stage(machine)
    _no_crash(reports)
    checks = {name: NAMED[name].code.partition(".")[0] for name in broken}
    assert len(set(checks.values())) == len(checks)
    for report in reports:
        for name, check in checks.items():
            concerned = report["host"]["user"] in broken[name]
            assert (NAMED[name].code in _counting(report, check)) is concerned, (report["host"]["user"], name)
        # The processes of the real machine show through.
        others = {code.partition(".")[0] for code in _counting(report)} - {"stale-processes"}
        assert others <= set(checks.values())
    root, user = ({row["check"]: row for row in report["results"]} for report in reports)
    for name, row in user.items():
        if name not in checks.values():
            assert row["status"] == root[name]["status"] or _is_blind(row), (name, row["reason"])


def test_what_is_tried_is_there() -> None:
    assert {name for broken in MACHINES for name in broken} <= set(NAMED)
