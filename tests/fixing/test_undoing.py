"""What a run did is read from its journal and taken back: the last first, each by its own guard."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from tests.support.desk import Desk

from npudoctor.core.model import Finding, Fix, Risk
from npudoctor.fixing import carry_out, report
from npudoctor.fixing.history import FixRun, runs_of
from npudoctor.fixing.journal import Journal
from npudoctor.fixing.outcome import ActionStatus, Observer, Outcome
from npudoctor.fixing.plan import FixRequest, Item, ItemResult
from npudoctor.fixing.report import FixReport
from npudoctor.fixing.steps.steps import Command, KnownStep, RemoveSharedMemory, encode
from npudoctor.fixing.undoing import UndoContext, find_runs, newest_undoable, undo
from npudoctor.render.history import history_text

SEGMENT = RemoveSharedMemory(1, 2, 3, 4, 5, 6, 7)


class Bench(Desk):
    """Runs of findings made up here, through the real engine, and their undoing."""

    def fix(self, *findings: Sequence[KnownStep], at: Observer = lambda name: None) -> FixReport:
        """A run of which each finding has these steps."""
        done = [
            ItemResult(self.item(f"x.n{n}", steps), Outcome(ActionStatus.PLANNED))
            for n, steps in enumerate(findings)
        ]
        context = UndoContext(self.host, lambda item: True, at)

        def work(journal: Journal) -> FixReport:
            ended = [carry_out.apply_item(one, n, context, journal) for n, one in enumerate(done)]
            return report.fix_report(ended, journal.run, changed=True)

        return carry_out.apply_with_journal(done, context, work, lambda done: pytest.fail("idle"))

    @staticmethod
    def item(code: str, steps: Sequence[KnownStep]) -> Item:
        """An item of a plan."""
        return Item("x", Finding(code, "m", fix=Fix("t", tuple(steps), risk=Risk.SAFE, needs_root=False)))

    def runs(self) -> list[FixRun]:
        """All runs, the newest first."""
        return runs_of(self.host().records)

    def undo(
        self,
        name: Optional[str] = None,
        at: Observer = lambda name: None,
        *,
        yes: bool = True,
        dry_run: bool = False,
    ) -> FixReport:
        """`undo --yes`."""
        runs = self.runs()
        (run,) = [newest_undoable(runs)] if name is None else find_runs(runs, name)
        context = UndoContext(self.host, lambda item: None, at)
        return undo(run, FixRequest(("undo",), yes=yes, dry_run=dry_run), context, lambda items: None)

    def touch(self, name: str) -> Command:
        """Make a file, and remove it again."""
        return Command(("touch", str(self.etc / name)), ("rm", "--", str(self.etc / name)))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def endings(report: FixReport) -> list[str]:
    return [one.outcome.status.value for one in report.actions]


def killed(work: Callable[[Observer], object], point: int) -> bool:
    """Do it in a child that is killed at this point; whether it came to that."""
    pid = os.fork()
    if pid == 0:
        left = iter(range(point))

        def at(_name: str) -> None:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            work(at)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def test_the_last_step_is_undone_first(bench: Bench) -> None:
    step = bench.write()
    link = Command(("ln", str(bench.path), f"{bench.path}.2"), ("rm", f"{bench.path}.2"))
    fixed = bench.fix((step,), (link,))
    assert endings(fixed) == ["applied", "applied"]
    report = bench.undo()
    assert [one.item.finding.code for one in report.actions] == ["x.n1", "x.n0"]
    assert (endings(report), report.exit_code, report.changed) == (["applied", "applied"], 0, True)
    assert bench.names() == []
    undoing, run = bench.runs()
    assert (undoing.undoes, undoing.name, run.undone_by) == (run.name, report.run, (report.run,))
    assert (run.name, run.undoable, undoing.undoable) == (fixed.run, False, False)
    assert [act.undone for act in run.acts] == [True, True]


def test_what_is_undone_is_not_undone_twice(bench: Bench) -> None:
    fixed = bench.fix((bench.write(), bench.touch("a")))
    assert bench.undo(fixed.run).exit_code == 0
    for name in (fixed.run, None):
        if name is None:
            assert newest_undoable(bench.runs()) is None
        else:
            again = bench.undo(name)
            assert (again.exit_code, again.changed, again.run) == (0, False, None)
            assert "already undone" in again.msg


def test_what_another_undid_while_a_person_was_asked_is_not_undone_twice(bench: Bench) -> None:
    """The second would take away what somebody made anew in between."""
    bench.fix((bench.touch("one"),), (bench.touch("two"),))
    (run,) = bench.runs()

    def asked(item: Item) -> bool:
        if bench.names() == ["one", "two"]:
            assert endings(bench.undo()) == ["applied", "applied"]
            (bench.etc / "two").touch()
        return True

    context = UndoContext(bench.host, asked)
    report = undo(run, FixRequest(("undo",)), context, lambda items: None)
    assert (endings(report), report.exit_code, report.changed) == (["already", "already"], 0, False)
    assert "another run" in report.actions[0].outcome.reason
    assert bench.names() == ["two"]


def test_the_steps_of_one_finding_are_one_item(bench: Bench) -> None:
    bench.fix((bench.write(), bench.touch("a")), (bench.touch("b"),))
    report = bench.undo(dry_run=True)
    assert [list(one.item.commands) for one in report.actions] == [
        [f"rm -- {bench.etc}/b"], [f"rm -- {bench.etc}/a", f"rm -- {bench.path}"],
    ]  # fmt: skip
    assert (report.exit_code, report.would_change, bench.names()) == (1, True, ["a", "b", "site.conf"])


def test_what_cannot_be_undone_is_refused_and_the_rest_is_undone(bench: Bench) -> None:
    fixed = bench.fix((Command(("true",)), bench.write()), (bench.touch("a"),))
    with Journal(str(bench.state), None) as journal:
        journal.write(
            "before", check="cache-server", code="cache-server.orphan-segment", step=encode(SEGMENT)
        )
        journal.write("after", code="cache-server.orphan-segment", status="applied", reason="")
        journal.write("end", exit_code=0, msg="1 applied")
    only_removed = bench.undo(journal.run)
    assert (endings(only_removed), only_removed.exit_code, only_removed.run) == (["refused"], 1, None)
    assert "ipcrm -m 1" in only_removed.actions[0].outcome.reason
    assert [run.undoable for run in bench.runs()] == [False, True]
    report = bench.undo()
    assert (endings(report), report.exit_code) == (["applied", "applied", "refused"], 1)
    assert report.actions[2].outcome.reason == "this cannot be undone: true"
    assert bench.names() == []
    assert find_runs(bench.runs(), fixed.run or "")[0].undone_by == (report.run,)


def test_a_file_that_changed_since_stays_and_can_be_undone_later(bench: Bench) -> None:
    bench.fix((bench.write(),))
    bench.path.write_text("by hand")
    report = bench.undo()
    assert (endings(report), report.exit_code, report.changed) == (["refused"], 1, False)
    assert bench.path.read_text() == "by hand"
    bench.path.write_text("new\n")
    assert bench.undo().exit_code == 0


def test_runs_upon_each_other(bench: Bench) -> None:
    """Of two runs that wrote the same file the older one can only be undone after the newer one."""
    first = bench.fix((bench.write("one"),))
    second = bench.fix((bench.write("two"),))
    assert [run.name for run in bench.runs()] == [second.run, first.run]
    assert endings(bench.undo(first.run)) == ["refused"]
    assert (endings(bench.undo()), bench.content()) == (["applied"], b"one")
    assert (endings(bench.undo()), bench.content()) == (["applied"], None)


def test_a_step_that_did_nothing_has_nothing_to_undo(bench: Bench) -> None:
    step = bench.write()
    bench.path.write_text("by hand")
    fixed = bench.fix((step,))
    assert endings(fixed) == ["refused"]
    assert newest_undoable(bench.runs()) is None
    assert (bench.undo(fixed.run).exit_code, bench.undo(fixed.run).msg) == (
        0,
        f"run {fixed.run} changed nothing",
    )


def test_a_program_that_failed_is_offered_and_said_to_be_in_doubt(bench: Bench) -> None:
    path = str(bench.etc / "a")
    bench.fix((Command(("sh", "-c", f"touch {path}; exit 3"), ("rm", path)),))
    (run,) = bench.runs()
    assert (run.acts[0].status, run.acts[0].changed) == ("failed", True)
    report = bench.undo()
    assert "what it did before that is unknown" in report.actions[0].item.finding.message
    assert (report.exit_code, bench.names()) == (0, [])


@pytest.mark.parametrize("old", [None, b"old"])
def test_killed_at_every_point_and_undone(bench: Bench, old: bytes) -> None:
    """Either nothing of the run is left to undo, or the undo brings back what was there."""
    point = 0
    while True:
        bench.path.unlink(missing_ok=True)
        if old:
            bench.path.write_bytes(old)
        steps = (bench.write(), Command(("true",), ("true",)))
        if not killed(lambda at, steps=steps: bench.fix(steps, at=at), point):  # type: ignore[misc]
            break
        run = newest_undoable(bench.runs())
        if run is not None:
            assert run.status in ("killed", "finished")  # after its last line it is over
            report = bench.undo(run.name)
            assert report.exit_code == 0, endings(report)
        assert bench.content() == old
        assert bench.names() == (["site.conf"] if old else [])
        assert newest_undoable(bench.runs()) is None
        point += 1
    assert point >= 20


def test_an_undo_killed_at_every_point_is_finished_by_the_next(bench: Bench) -> None:
    bench.path.write_bytes(b"old")
    point = 0
    while True:
        steps = (bench.write(), Command(("true",), ("true",)))
        fixed = bench.fix(steps)
        name = fixed.run or ""
        if not killed(lambda at, name=name: bench.undo(name, at=at), point):  # type: ignore[misc]
            break
        report = bench.undo(name)
        assert report.exit_code == 0, (point, endings(report))
        assert (bench.content(), bench.names()) == (b"old", ["site.conf"])
        assert newest_undoable(bench.runs()) is None
        point += 1
    assert point > 12


def test_a_program_whose_undo_was_stopped_midway_is_said_to_be_in_doubt(bench: Bench) -> None:
    fixed = bench.fix((bench.touch("a"),))

    def stop(name: str) -> None:
        if name.startswith("before run"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.undo(at=stop)
    assert [run.status for run in bench.runs()] == ["interrupted", "finished"]
    report = bench.undo()
    assert "an undo was interrupted" in report.actions[0].item.finding.message
    assert (report.exit_code, bench.names(), bench.runs()[2].name) == (0, [], fixed.run)


def test_who_is_asked_decides(bench: Bench) -> None:
    bench.fix((bench.write(),), (bench.touch("a"),))
    report = bench.undo(yes=False)
    assert (endings(report), report.exit_code, report.run) == (["refused"] * 2, 1, None)
    answers = iter([False, True])
    run = newest_undoable(bench.runs())
    context = UndoContext(bench.host, lambda item: next(answers))
    report = undo(run, FixRequest(("undo",)), context, lambda items: None)
    assert (endings(report), report.exit_code, bench.names()) == (["declined", "applied"], 1, ["a"])
    assert bench.undo().exit_code == 0


def test_an_undo_is_not_undone(bench: Bench) -> None:
    bench.fix((bench.write(),))
    report = bench.undo(bench.undo().run)
    assert (endings(report), report.exit_code) == (["refused"], 1)
    assert "applies that fix again" in report.actions[0].outcome.reason


def test_a_run_that_is_at_work_is_not_called_killed(bench: Bench) -> None:
    with Journal(str(bench.state), None) as journal:
        journal.write("before", check="x", code="x.y", step=encode(bench.touch("a")))
        assert [run.status for run in bench.runs()] == ["running"]
    (run,) = bench.runs()
    assert (run.status, run.acts[0].status, run.acts[0].changed) == ("killed", "unknown", None)


def test_while_another_run_is_at_work_nothing_is_undone(bench: Bench) -> None:
    bench.fix((bench.write(),))
    with Journal(str(bench.state), None):
        report = bench.undo()
    assert (endings(report), report.exit_code, bench.content()) == (["failed"], 1, b"new\n")


STRANGE: list[dict[str, Any]] = [
    {"kind": "OfTheFuture", "x": 1},
    {"kind": "WriteFile", "path": "/x"},
    {"kind": "SetKernel", "name": 1, "value": "", "was": ""},
    {"kind": "Command", "argv": "x", "undo": 3},
    {},
]


@pytest.mark.parametrize("step", STRANGE, ids=str)
def test_a_step_that_this_version_does_not_know(bench: Bench, step: dict[str, Any]) -> None:
    with Journal(str(bench.state), None) as journal:
        journal.write("before", check="x", code="x.y", step=step)
        journal.write("after", code="x.y", status="applied", reason="")
    report = bench.undo(journal.run)
    assert (endings(report), report.exit_code) == (["refused"], 1)


@pytest.mark.needs_root
def test_a_journal_that_others_may_write_is_not_believed_and_named(bench: Bench) -> None:
    bench.fix((bench.write(),))
    (file,) = (bench.state / "journal").iterdir()
    for mode, owner in ((0o666, 0), (0o600, 61234)):
        file.chmod(mode)
        os.chown(file, owner, owner)
        records = bench.host().records
        assert runs_of(records) == []
        (doubt,) = records.doubts
        assert str(file) in doubt


def test_a_line_cut_short_is_passed_over(bench: Bench) -> None:
    bench.fix((bench.write(),))
    (file,) = (bench.state / "journal").iterdir()
    lines = file.read_bytes().splitlines(keepends=True)
    assert [json.loads(line)["event"] for line in lines] == ["before", "after", "end"]
    file.write_bytes(lines[0] + lines[1][:20])
    assert bench.undo().exit_code == 0
    assert bench.content() is None


@pytest.mark.parametrize(
    "line",
    [
        "[" * 200_000,
        '{"event": "before", "step": {"kind": "InsertRule", "place": [1], "rule": [2], "comment": 3}}',
        '{"event": "before", "step": {"kind": "SignalProcess", "processes": "x", "owner": "y"}}',
        '{"event": "before", "step": {"kind": ["Command"]}}',
    ],
)
def test_a_line_that_makes_no_sense_stops_nothing(bench: Bench, line: str) -> None:
    bench.fix((bench.touch("one"),))
    (path,) = (bench.state / "journal").iterdir()
    (path.with_name("20200101T000000-00000000.jsonl")).write_text(line + "\n")
    (path.parent / "20200101T000000-00000000.jsonl").chmod(0o600)
    assert history_text(bench.runs())
    assert endings(bench.undo()) == ["applied"]
