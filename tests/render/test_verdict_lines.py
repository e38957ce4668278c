"""The closing line never contradicts the counts, rows and exit status beside it: tried on random reports."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Sequence
from typing import Optional

import pytest

from npudoctor import Finding, Severity, Status
from npudoctor.core.model import Ignored, Report, Result, Verdict
from npudoctor.fleet.fixes import NodeFix, fold_fixes
from npudoctor.fleet.merge import NOT_READY, READY, SILENT, STATES, UNDETERMINED, Failure, Fleet, Node
from npudoctor.fleet.pairs import Side
from npudoctor.fleet.pairs import judge as pairs_judge
from npudoctor.render.fleet import fixes, pairs
from npudoctor.render.fleet.text import fleet_text
from npudoctor.render.fleet.text import one_line as fleet_line
from npudoctor.render.style import PLAIN
from npudoctor.render.text import verdict_lines
from npudoctor.runner import verdict

from . import samples

NONE_APPLIES = "none of the selected checks applies to this machine"
PORTS = frozenset({1})
SEEDS = range(40)
EACH = 25


def random_rows(dice: random.Random) -> list[Result]:
    rows = []
    # Mostly few rows and endings without an answer: there the line has to say why.
    statuses = list(Status) if dice.random() < 0.5 else [Status.SKIPPED, Status.UNKNOWN, Status.CRASHED]
    for number in range(dice.choice((0, 1, 1, 2, 3, 8))):
        name, status = f"c{number}", dice.choice(statuses)
        severities = {Status.OK: [Severity.INFO], Status.PROBLEM: [Severity.WARNING, Severity.ERROR]}
        findings = [
            Finding(
                f"{name}.f{n}",
                "message",
                dice.choice(severities.get(status, list(Severity))),
                ignored=Ignored(None) if dice.random() < 0.2 else None,
                caused_by="other" if dice.random() < 0.1 else None,
            )
            for n in range(dice.choice((0, 0, 1, 2)))
        ]
        needed = dice.random() < 0.5 and status is not Status.SKIPPED
        rows.append(Result(name, name, "group", status, needed=needed, findings=tuple(findings)))
    return rows


def report_of(rows: Sequence[Result], fail_on: Severity) -> Report:
    answer, status = verdict.judge(rows, fail_on)
    line = verdict.one_line(answer, rows, fail_on)
    return dataclasses.replace(
        samples.report(), results=tuple(rows), verdict=answer, exit_code=status, msg=line,
        counts=verdict.count(rows),
    )  # fmt: skip


def number_before(word: str, text: str) -> int:
    match = re.search(rf"(\d+) {word}s?\b", text)
    return int(match[1]) if match else 0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_line_of_check_agrees_with_its_counts(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    for _round in range(EACH):
        rows, fail_on = random_rows(dice), dice.choice((Severity.ERROR, Severity.WARNING))
        report = report_of(rows, fail_on)
        text = " ".join(" ".join(verdict_lines(report, PLAIN, whole=True)).split())
        for line in (report.msg, text):
            word = {0: "ready", 1: "not ready", 2: "undetermined"}[report.exit_code]
            assert re.match(rf"{word}(:|;|$)", line.lower()), line
            applies = [row for row in rows if row.status is not Status.SKIPPED or row.findings]
            assert (NONE_APPLIES in line) == (report.exit_code == 2 and not applies), (line, rows)
            for check in re.findall(r"no result from ([^;]*)", line)[:1]:
                named = [row for row in rows if row.check in check.split(", ")]
                assert named and all(row.status not in verdict.ANSWERED for row in named), (line, rows)
        assert number_before("error", text) == report.counts["errors"], text
        assert number_before("warning", text) == report.counts["warnings"], text
        if report.verdict is Verdict.NOT_READY:
            deciding = [f for row in rows for f in row.findings if f.counts and f.weight >= fail_on]
            assert number_before("problem", report.msg) == len(deciding) > 0


def test_a_warning_and_none_applies_are_never_said_together() -> None:
    """What a user who is not root saw beside root's dead server."""
    warning = Finding("cache-server.unproven", "could be dead", Severity.WARNING)
    row = Result("cache-server", "t", "leftovers", Status.UNKNOWN, needed=False, findings=(warning,))
    skipped = Result("hccl-env", "t", "network", Status.SKIPPED, needed=False)
    (line, *_more) = verdict_lines(report_of([row, skipped], Severity.ERROR), PLAIN)
    assert line.startswith("UNDETERMINED: 1 warning, no result from cache-server")


@pytest.mark.parametrize(
    ("sides", "status", "line"),
    [
        ((Side("a", PORTS), Side("b", PORTS)), 0, "all 2 nodes reach each other on 1 (2 connections)"),
        ((Side("a", error="x"), Side("b", error="y")), 2, "none of 2 nodes took part"),
        ((Side("a", PORTS), Side("b", error="x")), 2, "1 nodes reach each other on 1; 1 did not take part"),
        (
            (Side("a", PORTS), Side("b", PORTS, failed={"a": (PORTS, "refused")}), Side("c", error="x")),
            1,
            "not all of 2 nodes reach each other on 1 (2 connections tried); 1 did not take part",
        ),
    ],
)
def test_the_line_of_fleet_pairs_leaves_no_silent_node_out(
    sides: tuple[Side, ...], status: int, line: str
) -> None:
    reach = pairs_judge(sides)
    assert (reach.exit_code, pairs.one_line(reach, "1")) == (status, line)


def random_fleet(dice: random.Random) -> Fleet:
    states = dice.choice((STATES, (READY,), (NOT_READY, READY), (READY, SILENT)))
    nodes = []
    for number in range(dice.choice((0, 1, 2, 5))):
        state = dice.choice(states)
        error = "no report" if state == SILENT or (state == UNDETERMINED and dice.random() < 0.5) else None
        nodes.append(Node(f"n{number}", state, "msg", error=error))
    failures = [Failure(node.name, "-", node.error) for node in nodes if node.error and dice.random() < 0.5]
    if dice.random() < 0.4:
        names: list[Optional[str]] = [None, *(node.name for node in nodes)]
        failures.append(Failure(dice.choice(names), "x.json", "contains no report"))
    return Fleet(tuple(nodes), (), (), tuple(failures))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_line_of_a_fleet_agrees_with_its_nodes(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    for _round in range(EACH):
        fleet = random_fleet(dice)
        line, counts = fleet_line(fleet), {state: len(fleet.names(state)) for state in STATES}
        open_nodes = counts[UNDETERMINED] + counts[SILENT]
        known = {node.name for node in fleet.nodes if node.error is not None}
        unread = sum(failure.node not in known for failure in fleet.failures)
        assert not re.search(r"(?<!\d)0 ", line), line
        assert line.startswith({0: "ready: ", 1: "not ready: ", 2: "undetermined: "}[fleet.exit_code])
        assert number_before("report", line) == unread, (line, fleet)
        if fleet.exit_code == 0:
            assert counts[READY] == len(fleet.nodes) > 0
        elif fleet.exit_code == 1:
            assert f"not ready: {counts[NOT_READY]} of {len(fleet.nodes)} nodes" in line
            assert number_before("undetermined or silent", line) == open_nodes
        else:
            said = f"undetermined: {open_nodes} of {len(fleet.nodes)} nodes" in line
            assert said == (open_nodes > 0)
            assert said or unread or "no node reported" in line, line
        text = fleet_text(fleet)
        assert text.count("x.json") + text.count("contains no report") >= (unread > 0)
        assert line in text


@pytest.mark.parametrize("seed", SEEDS)
def test_the_line_of_fleet_fix_says_why_it_ends_so(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    for _round in range(EACH):
        names = [f"n{number}" for number in range(dice.choice((1, 2, 5)))]
        nodes = []
        for name in names:
            if dice.random() < 0.3:
                nodes.append(NodeFix(name, error="no answer in time"))
                continue
            code = dice.choice((0, 0, 1, 2))
            nodes.append(
                NodeFix(name, code, changed=dice.random() < 0.5, failed=code != 0, msg=f"why of {name}")
            )
        fleet = fold_fixes(nodes, names)
        line, text = fixes.one_line(fleet), fixes.fleet_fix_text(fleet)
        doubtful = [node for node in nodes if node.error is None and node.exit_code == 2]
        silent = [node for node in nodes if node.error is not None]
        left = [node for node in nodes if node.exit_code == 1]
        told = {"findings remain on": left, "could not check everything on": doubtful,
                "no answer from": silent}  # fmt: skip
        for words, group in told.items():
            assert (f"{words} {len(group)}" in line) == bool(group), (line, words)
        if line.endswith("nothing to do"):
            assert fleet.exit_code == 0 and not any(node.changed for node in nodes)
        assert fleet.exit_code == (1 if left else 2 if doubtful or silent else 0)
        assert all(node.msg in text for node in doubtful)
