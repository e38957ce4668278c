"""hccl-ports: who holds a port decides: an ancestor, a process that was left behind, anybody else."""

from __future__ import annotations

import pytest

from npudoctor import Action, Risk, Severity, Status
from npudoctor.testing import Content, link, process_files, unreadable

from .ports_machine import (
    ANY,
    BASE,
    ESTABLISHED,
    HERE,
    LISTEN,
    OTHER,
    TIME_WAIT,
    TORCHRUN,
    judge,
    row,
    sockets_of,
)


def test_an_ancestor_may_hold_its_port() -> None:
    asked = judge(row(ANY, 29500, 50), row("::", 40003, 51), variables={**HERE, **BASE})
    assert (asked.status, asked.findings) == (Status.OK, ())
    held = {"state": "ancestor", "addresses": [ANY], "pids": [TORCHRUN], "uids": [1000]}
    assert asked.facts["tcp/29500"] == held


def test_a_socket_that_an_ancestor_shares_is_an_ancestors() -> None:
    worker = process_files(701, "python3", parent=TORCHRUN, descriptors=sockets_of(50))
    assert judge(row(ANY, 29500, 50), variables=HERE, files=worker).findings == ()


def test_init_is_everybodys_ancestor_and_excuses_nothing() -> None:
    init = process_files(1, "systemd", parent=0, descriptors=sockets_of(70))
    (finding,) = judge(row("::", 40003, 70), variables=BASE, files=init).findings
    assert finding.code == "hccl-ports.held"


def test_a_child_of_an_ancestor_is_no_ancestor() -> None:
    sibling = process_files(701, "python3", parent=TORCHRUN, descriptors=sockets_of(70))
    assert judge(row(ANY, 40003, 70), variables=BASE, files=sibling).codes == ["hccl-ports.held"]


def test_without_rights_the_user_of_the_socket_is_named() -> None:
    files: dict[str, Content] = {f"/proc/{OTHER}/fd": unreadable()}
    (finding,) = judge(row(ANY, 40000, 1), variables=BASE, files=files, euid=1001).findings
    assert "uid 1000 (alice)" in finding.message
    (finding,) = judge(row(ANY, 40000, 1, uid=77), variables=BASE, files=files, euid=1001).findings
    assert "uid 77" in finding.message
    assert "unknown" not in finding.message.lower()


def test_an_outgoing_connection_holds_its_port() -> None:
    """bind() to its address and to the wildcard fails, SO_REUSEADDR or not."""
    (finding,) = judge(row("192.0.2.1", 40003, 1, state=ESTABLISHED), variables=BASE).findings
    assert finding.code == "hccl-ports.held"
    assert "connected" in finding.evidence[0]


def test_what_a_listener_accepted_is_not_told_beside_it() -> None:
    rows = (row(ANY, 40003, 1), row("192.0.2.1", 40003, 2, state=ESTABLISHED))
    (finding,) = judge(*rows, variables=BASE).findings
    assert len(finding.evidence) == 1


def test_a_connection_inside_of_the_machine_leaves_the_card_free() -> None:
    rows = (row("127.0.0.1", 40003, 1, state=ESTABLISHED), row("127.0.0.1", 29500, 2, state=ESTABLISHED))
    asked = judge(*rows, variables={**BASE, **HERE})
    told = asked.facts["tcp/40003"]
    assert isinstance(told, dict) and (told["state"], told["addresses"]) == ("partly-free", ["127.0.0.1"])
    # The meeting point is bound to the wildcard, which such a connection does hold.
    (finding,) = asked.findings
    assert "29500" in finding.message


def test_a_connection_that_is_over_passes_by_itself() -> None:
    assert judge(row("192.0.2.1", 40003, 0, state=TIME_WAIT), variables=BASE).findings == ()


def slurm_left_behind() -> dict[str, Content]:
    return {
        "/proc/self/ns/pid": link("pid:[4026531836]"),
        "/proc/self/ns/cgroup": link("cgroup:[4026531835]"),
        "/proc/1/cgroup": "0::/init.scope\n",
        f"/proc/{OTHER}/cgroup": "0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n",
    }


def test_a_stale_holder_is_an_error() -> None:
    asked = judge(row(ANY, 40000, 1), variables=BASE, files=slurm_left_behind())
    (finding,) = asked.findings
    assert (finding.code, finding.severity) == ("hccl-ports.held-by-stale", Severity.ERROR)
    assert finding.action is Action.CLEANUP
    assert f"pid {OTHER}" in finding.message
    assert any("job 77" in line for line in finding.evidence)
    assert finding.fix is not None
    assert (finding.fix.commands, finding.fix.risk) == ((f"kill {OTHER}",), Risk.MANUAL)
    assert finding.fix.needs_root


def test_ones_own_stale_process_needs_no_root() -> None:
    asked = judge(row(ANY, 40000, 1), variables=BASE, files=slurm_left_behind(), euid=1000)
    fix = asked.findings[0].fix
    assert fix is not None and not fix.needs_root


def test_one_that_lives_beside_a_stale_one_shares_its_socket() -> None:
    heir = process_files(4712, "python3", descriptors=sockets_of(1))
    asked = judge(row(ANY, 40000, 1), variables=BASE, files={**slurm_left_behind(), **heir})
    assert asked.codes == ["hccl-ports.held"]


def test_stale_and_living_holders_are_two_findings() -> None:
    other = process_files(4712, "python3", descriptors=sockets_of(70))
    rows = (row(ANY, 40000, 1), row(ANY, 40001, 70))
    asked = judge(*rows, variables=BASE, files={**slurm_left_behind(), **other})
    assert asked.codes == ["hccl-ports.held-by-stale", "hccl-ports.held"]


JOB, GROUP = 4700, "/kubepods/pod7/main"


@pytest.mark.parametrize(
    "other",
    [
        {},  # the socket is the examined process's own child's
        process_files(OTHER, "python3", parent=1, uid=1000, descriptors=sockets_of(1)),
    ],
    ids=["descendant", "control group"],
)
@pytest.mark.parametrize("state", [LISTEN, ESTABLISHED])
def test_a_running_job_holds_its_own_ports(other: dict[str, Content], state: str) -> None:
    files: dict[str, Content] = {
        **process_files(JOB, "python3", parent=1, uid=1000),
        **process_files(OTHER, "python3", parent=JOB, uid=1000, descriptors=sockets_of(1)),
        **other,
        f"/proc/{JOB}/cgroup": f"0::{GROUP}\n",
        f"/proc/{OTHER}/cgroup": f"0::{GROUP}\n",
    }
    rows = (row("192.0.2.1", 40003, 1, state=state),)
    assert judge(*rows, variables=BASE, files=files, env_of=JOB).codes == []
    assert judge(*rows, variables=BASE, files=files).codes == ["hccl-ports.held"]


def test_another_job_holds_the_ports_of_the_examined_one() -> None:
    files = process_files(JOB, "python3", parent=1, uid=1000)
    strange = process_files(OTHER, "python3", parent=1, uid=1001, descriptors=sockets_of(1))
    asked = judge(row(ANY, 40003, 1), variables=BASE, files={**files, **strange}, env_of=JOB)
    assert asked.codes == ["hccl-ports.held"]
