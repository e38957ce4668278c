"""A whole fix: the plan, the answers, the statuses, what is written down, and what stops it midway."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from typing import Optional

import pytest
from tests.support import ipc
from tests.support.machine import PORT, Machine, told
from tests.support.others import forked

from npudoctor.core.frozen import replace
from npudoctor.core.model import ADVICE, Finding, Fix, Report, Result, Risk, Severity, Status, Verdict
from npudoctor.fixing.engine import FixContext, FixReport, fix
from npudoctor.fixing.journal import Journal
from npudoctor.fixing.outcome import ActionStatus
from npudoctor.fixing.plan import FixRequest, Item, items_of, refusal_of
from npudoctor.fixing.steps.steps import Command, Export
from npudoctor.host import Host
from npudoctor.runner.description import minimal_host, minimal_target
from npudoctor.testing import fake_host

DONE = ["orphan-segment", "orphan-socket", "orphan-spill"]


def endings(report: FixReport) -> list[str]:
    return [one.outcome.status.value for one in report.actions]


def events(machine: Machine) -> list[str]:
    return [record["event"] for record in machine.journal()]


@pytest.mark.parametrize("module", ["engine", "undoing"])
def test_a_plan_loads_nothing_that_changes_a_machine(module: str) -> None:
    script = (
        f"import sys, npudoctor.fixing.{module}; print([name for name in sys.modules if '.actions' in name])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# with a real dead server


def test_without_a_selection_only_the_plan_is_shown(machine: Machine) -> None:
    machine.dead_server(spill=True)
    shown: list[Item] = []
    context = FixContext(machine.report, machine.host, lambda item: True, at=lambda name: pytest.fail(name))
    report = fix(FixRequest(yes=True), context, shown.extend)
    assert [item.finding.code.partition(".")[2] for item in shown] == DONE
    assert endings(report) == ["planned"] * 3
    assert (report.exit_code, report.changed, report.would_change, report.failed) == (1, False, True, False)
    assert not machine.state.exists()


def test_a_dry_run_changes_nothing(machine: Machine) -> None:
    machine.dead_server(spill=True)
    before = ipc.rows(), machine.tree()
    report = machine.fix(dry_run=True, at=lambda name: pytest.fail(name))
    assert (report.exit_code, report.changed, report.would_change, report.run) == (1, False, True, None)
    assert endings(report) == ["planned"] * 3
    assert (ipc.rows(), machine.tree()) == before
    assert not machine.state.exists()


def test_a_dry_run_with_nothing_to_do(machine: Machine) -> None:
    report = machine.fix(dry_run=True)
    assert (report.exit_code, report.would_change, report.msg) == (0, False, "nothing to do")


def test_everything_is_written_down_before_it_is_done(machine: Machine) -> None:
    server = machine.dead_server(spill=True)
    report = machine.fix()
    assert events(machine) == ["before", "after"] * 3 + ["end"]
    records = machine.journal()
    assert {record["run"] for record in records} == {report.run}
    assert {record["boot_id"] for record in records} == {machine.host().system.boot_id()}
    first = records[0]
    assert first["check"] == "cache-server"
    assert first["code"] == "cache-server.orphan-segment"
    assert f"cpid {server.pid}" in first["evidence"][0]
    assert first["step"]["shmid"] == server.shmid
    assert first["step"]["log_inode"] == server.log.stat().st_ino
    assert records[1]["status"] == "applied"
    assert (records[-1]["exit_code"], records[-1]["msg"]) == (0, "3 applied")


def test_the_order_is_segment_socket_spill_for_all_servers(machine: Machine) -> None:
    machine.dead_server(PORT, spill=True)
    machine.dead_server(PORT + 1, spill=True)
    report = machine.fix()
    codes = [one.item.finding.code.partition(".")[2] for one in report.actions]
    assert codes == [code for code in DONE for _server in range(2)]
    assert report.exit_code == 0


@pytest.mark.parametrize(
    ("answers", "expected", "status"),
    [
        ([True, True, True], ["applied"] * 3, 0),
        ([False, False, False], ["declined"] * 3, 1),
        ([None, None, None], ["refused"] * 3, 1),
        ([False, True, True], ["declined", "refused", "applied"], 1),
        ([True, False, True], ["applied", "declined", "applied"], 1),
        ([True, True, False], ["applied", "applied", "declined"], 1),
    ],
    ids=str,
)
def test_who_is_asked_decides(
    machine: Machine, answers: Sequence[Optional[bool]], expected: list[str], status: int
) -> None:
    machine.dead_server(spill=True)
    left = iter(answers)
    report = machine.fix(yes=False, confirm=lambda _item: next(left))
    assert endings(report) == expected
    assert report.exit_code == status
    assert report.changed is ("applied" in expected)
    assert (report.run is None) is ("applied" not in expected)


def test_only_what_was_selected(machine: Machine) -> None:
    server = machine.dead_server(spill=True)
    context = FixContext(machine.report, machine.host, lambda item: None)
    request = FixRequest(("cache-server",), codes=frozenset({"cache-server.orphan-spill"}), yes=True)
    report = fix(request, context, lambda items: None)
    assert endings(report) == ["applied"]
    assert report.exit_code == 0
    assert machine.codes() == ["orphan-segment", "orphan-socket"]
    assert not server.spill.exists()


def test_while_another_fix_runs(machine: Machine) -> None:
    machine.dead_server(spill=True)
    before = ipc.rows(), machine.tree()
    with Journal(str(machine.state), None):
        report = machine.fix()
    assert (report.exit_code, report.changed, report.failed) == (1, False, True)
    assert {one.outcome.reason for one in report.actions} == {"another fix is running"}
    assert (ipc.rows(), machine.tree()) == before


def test_where_no_journal_can_be_written_nothing_is_done(machine: Machine) -> None:
    machine.dead_server(spill=True)
    machine.state.write_text("")
    before = ipc.rows(), machine.tree()
    report = machine.fix()
    assert (report.exit_code, report.changed, report.failed, report.run) == (1, False, True, None)
    assert endings(report) == ["failed"] * 3
    assert (ipc.rows(), machine.tree()) == before


@pytest.mark.parametrize("number", range(1, 8))
def test_a_journal_that_cannot_be_written_from_here_on(machine: Machine, number: int) -> None:
    """What was done is told; what was not yet written down is not done, and says why."""
    machine.dead_server(spill=True)
    done = number // 2  # each act has one record before it and one after it

    def run() -> tuple[int, bool, list[str], list[str]]:
        told: list[str] = []

        def at(name: str) -> None:
            if name.startswith("before journal"):
                told.append(name)
                if len(told) == number:
                    (file,) = (machine.state / "journal").iterdir()
                    limit = file.stat().st_size + 10
                    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

        report = machine.fix(at=at)
        reasons = [one.outcome.reason for one in report.actions if one.outcome.status is ActionStatus.FAILED]
        return report.exit_code, report.changed, endings(report), reasons

    status, changed, ended, reasons = forked(run)
    assert ended == ["applied"] * done + ["failed"] * (3 - done)
    assert changed is (done > 0)
    assert status == (0 if done == 3 else 1)
    assert all("journal" in reason for reason in reasons)
    assert len(machine.codes()) == 3 - done
    assert machine.fix().exit_code == 0


class Interrupt:
    """Ctrl-C at the point of this number, once."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, _name: str) -> None:
        self.left -= 1
        if self.left == -1:
            raise KeyboardInterrupt


def test_ctrl_c_at_any_point_leaves_a_journal_that_says_so(machine: Machine) -> None:
    names: list[str] = []
    machine.dead_server(spill=True)
    machine.fix(at=names.append)
    undisturbed = events(machine)
    home = machine.state
    for number, name in enumerate(names):
        machine.state = home.with_name(f"state-{number}")
        machine.dead_server(spill=True)
        with pytest.raises(KeyboardInterrupt):
            machine.fix(at=Interrupt(number))
        written = events(machine)
        if number > names.index("after make journal"):
            assert written.pop() == "interrupted", name
        assert written == undisturbed[: len(written)], name
        assert not list(machine.tmp.rglob(".cache_server*")), name
        report = machine.fix()
        assert report.exit_code == 0, (name, told(report))
        assert machine.codes() == [], name


def test_an_act_that_another_did_meanwhile(machine: Machine) -> None:
    machine.dead_server(spill=True)
    report = machine.fix(planned=lambda _items: machine.fix())
    assert endings(report) == ["already"] * 3
    assert (report.exit_code, report.changed, report.failed) == (0, False, False)


def test_a_removal_that_ends_midway_is_told_as_a_change(machine: Machine) -> None:
    server = machine.dead_server(spill=True)

    def at(name: str) -> None:
        if name.startswith("before remove folder"):
            (server.spill / "new").write_text("")

    report = machine.fix(at=at)
    assert endings(report)[:3] == ["applied", "applied", "failed"]
    assert (report.exit_code, report.changed, report.failed) == (1, True, True)


def test_what_appears_meanwhile_is_told(machine: Machine) -> None:
    machine.dead_server(PORT)
    report = machine.fix(planned=lambda _items: machine.dead_server(PORT + 1))
    assert endings(report) == ["applied", "applied", "refused", "refused"]
    assert report.exit_code == 1
    assert "appeared" in report.actions[-1].outcome.reason


# with findings of every kind


def report_of(host: Host, *findings: Finding, status: Status = Status.PROBLEM) -> Report:
    row = Result("x", "X", "host", status, findings=findings)
    described = minimal_host(host), minimal_target(host)
    return Report("0", "", 0.0, "full", "all", *described, Verdict.UNDETERMINED, 2, "", {}, (row,))


def finding(fix: Optional[Fix] = None, severity: Severity = Severity.WARNING, **more: object) -> Finding:
    return Finding("x.y", "it is so", severity, fix=fix, **more)  # type: ignore[arg-type]


TRUE = (Command(("true",)),)


@pytest.mark.parametrize(
    ("remedy", "asked_for", "euid", "words"),
    [
        (None, FixRequest(), 0, "has no fix"),
        (
            Fix("t", TRUE, risk=Risk.SAFE, unproven=True),
            FixRequest(yes=True, risk=Risk.CAUTION),
            0,
            "never removes",
        ),
        (Fix("t", TRUE, risk=Risk.MANUAL), FixRequest(yes=True, risk=Risk.CAUTION), 0, "by hand"),
        (
            Fix("t", (Export("A", "b"),), risk=Risk.SAFE),
            FixRequest(yes=True),
            0,
            "in that shell, run the command shown",
        ),
        (Fix("t", TRUE, risk=Risk.SAFE), FixRequest(yes=True), 1000, "only root"),
        (Fix("t", TRUE), FixRequest(yes=True), 0, "--risk caution"),
        (Fix("t", TRUE), FixRequest(yes=True, risk=Risk.CAUTION), 0, None),
        (Fix("t", TRUE), FixRequest(), 0, None),
        (Fix("t", TRUE, risk=Risk.SAFE, needs_root=False), FixRequest(yes=True), 1000, None),
    ],
)
def test_what_stands_against_an_item(
    remedy: Optional[Fix], asked_for: FixRequest, euid: int, words: Optional[str]
) -> None:
    refusal = refusal_of(finding(remedy), fake_host(euid=euid), asked_for)
    assert (refusal is None) if words is None else (words in (refusal or ""))


def test_which_findings_are_items() -> None:
    host = fake_host()
    safe = Fix("t", TRUE, risk=Risk.SAFE)
    report = report_of(
        host,
        finding(safe),
        finding(None),
        finding(safe, Severity.INFO),
        finding(None, Severity.INFO),
        finding(safe, caused_by="x.z"),
    )
    assert [item.finding.severity for item in items_of(report, host, FixRequest())] == [
        Severity.WARNING, Severity.WARNING, Severity.INFO,
    ]  # fmt: skip
    assert items_of(report, host, FixRequest(codes=frozenset({"x.other"}))) == []


def test_advice_is_an_item_only_by_name() -> None:
    report = report_of(fake_host(), finding(Fix("t", TRUE, risk=Risk.MANUAL), Severity.INFO))
    (row,) = report.results
    report = replace(report, results=(replace(row, group=ADVICE),))
    named = FixRequest(select=("x",))
    assert [items_of(report, fake_host(), asked) != [] for asked in (FixRequest(), named)] == [False, True]


def test_a_note_that_is_left_to_a_person_decides_nothing() -> None:
    """A ready machine may carry notes; who names one is told whether it is still there."""
    export = Fix("t", (Export("A", "b"),))
    for remedy in (export, Fix("t", TRUE, risk=Risk.MANUAL), Fix("t", TRUE)):
        report = report_of(fake_host(euid=1000), finding(remedy, Severity.INFO), status=Status.OK)
        context = FixContext(lambda told=report: told, lambda: fake_host(euid=1000), lambda item: None)  # type: ignore[misc]
        for request in (FixRequest(), FixRequest(("x",), everything=True, yes=True)):
            done = fix(request, context, lambda items: None)
            assert endings(done) == ["refused"]
            assert (done.exit_code, done.failed, done.changed) == (0, False, False)
        done = fix(FixRequest(("x",), yes=True), context, lambda items: None)
        assert (done.exit_code, done.failed) == (1, True)


@pytest.mark.parametrize(
    ("remedy", "msg"),
    [
        (None, "1 by hand"),
        (Fix("t", (Export("A", "b"),)), "1 by hand"),
        (Fix("t", TRUE, risk=Risk.MANUAL), "1 by hand"),
        (Fix("t", TRUE), "1 refused"),  # root could
        (Fix("t", TRUE, unproven=True, risk=Risk.MANUAL), "1 refused"),
    ],
)
def test_what_only_a_person_can_do_is_by_hand(remedy: Optional[Fix], msg: str) -> None:
    report = report_of(fake_host(euid=1000), finding(remedy))
    done = fix(
        FixRequest(("x",), yes=True),
        FixContext(lambda: report, lambda: fake_host(euid=1000), lambda item: None),
        lambda items: None,
    )
    assert (done.msg, endings(done)) == (msg, ["refused"])


@pytest.mark.parametrize(
    ("fixes", "status", "expected"),
    [
        ((), Status.OK, (0, False)),
        ((), Status.UNKNOWN, (2, True)),
        ((), Status.CRASHED, (2, True)),
        ((), Status.TIMEOUT, (2, True)),
        ((), Status.BROKEN, (2, True)),
        ((), Status.SKIPPED, (0, False)),
        ((Fix("t", unproven=True),), Status.PROBLEM, (2, True)),
        ((Fix("t", TRUE, risk=Risk.MANUAL),), Status.PROBLEM, (1, True)),
        ((Fix("t", unproven=True), Fix("t", TRUE, risk=Risk.MANUAL)), Status.PROBLEM, (1, True)),
        ((None,), Status.PROBLEM, (1, True)),
    ],
)
def test_the_exit_status(fixes: Sequence[Optional[Fix]], status: Status, expected: tuple[int, bool]) -> None:
    host = fake_host()
    found = report_of(host, *(finding(remedy) for remedy in fixes), status=status)
    context = FixContext(lambda: found, fake_host, lambda item: None)
    report = fix(FixRequest(("x",), yes=True), context, lambda items: None)
    assert (report.exit_code, report.failed) == expected
    assert not report.changed


@pytest.mark.parametrize(
    ("fixes", "said"), [((), "found nothing to fix, but "), ((Fix("t", unproven=True),), "1 refused; ")]
)
def test_status_2_never_comes_without_its_reason(fixes: Sequence[Fix], said: str) -> None:
    host = fake_host()
    found = report_of(host, *(finding(remedy) for remedy in fixes), status=Status.UNKNOWN)
    context = FixContext(lambda: found, fake_host, lambda item: None)
    report = fix(FixRequest(("x",), yes=True), context, lambda items: None)
    assert (report.exit_code, report.failed) == (2, True)
    assert report.msg.startswith(f"{said}could not check everything: x"), report.msg


def test_fixed_is_what_the_check_no_longer_finds(machine: Machine) -> None:
    host = machine.host()
    remedy = Fix("t", TRUE, risk=Risk.SAFE, needs_root=False)
    context = FixContext(lambda: report_of(host, finding(remedy)), machine.host, lambda item: None)
    report = fix(FixRequest(("x",), yes=True), context, lambda items: None)
    assert endings(report) == ["failed"]
    assert "still finds it" in report.actions[0].outcome.reason
    assert (report.exit_code, report.changed) == (1, True)


def test_a_step_that_fails_ends_its_item_and_no_other(machine: Machine) -> None:
    host = machine.host()
    broken = Fix("t", (*TRUE, Command(("false",)), *TRUE), risk=Risk.SAFE, needs_root=False)
    whole = Fix("t", TRUE, risk=Risk.SAFE, needs_root=False)
    # Before the second item, whose guard is that the check still finds it, the check is asked again.
    both = report_of(host, finding(broken), finding(whole))
    found = iter([both, both, report_of(host)])
    context = FixContext(lambda: next(found), machine.host, lambda item: None)
    report = fix(FixRequest(("x",), yes=True), context, lambda items: None)
    assert endings(report) == ["failed", "applied"]
    assert report.changed
    assert [record.get("status") for record in machine.journal() if record["event"] == "after"] == [
        "applied", "failed", "applied",
    ]  # fmt: skip


def test_root_keeps_its_journal_where_it_was_told(machine: Machine) -> None:
    machine.dead_server()
    machine.fix()
    assert os.listdir(machine.state / "journal")
