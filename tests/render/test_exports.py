"""What other programs read: JUnit by Ant's schema, CSV for a spreadsheet, the node's own detector's line."""

from __future__ import annotations

import csv
import io
import random
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.fleet.carriers import ready, report
from tests.fleet.test_merge import hostile

from npudoctor.fleet.merge import Merger
from npudoctor.fleet.reading import ReceivedReport, UnreadableReport
from npudoctor.render import exports
from npudoctor.render.exports import NPD_BYTES, ExportNode, ExportRow

# JUnit.xsd of Apache Ant's tasks, as far as it says what must be there: of each element its attributes with
# what they may hold, and its children in their order.
INT, DECIMAL, TEXT, TOKEN = r"-?\d+", r"\d+(\.\d+)?", r"(?s).*", r"(?s).+"
DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
ATTRIBUTES = {
    "testsuites": {},
    "testsuite": {
        "package": TEXT, "id": INT, "name": TOKEN, "timestamp": DATE, "hostname": TOKEN, "tests": INT,
        "failures": INT, "errors": INT, "time": DECIMAL,
    },
    "properties": {}, "property": {"name": TOKEN, "value": TEXT},
    "testcase": {"name": TEXT, "classname": TEXT, "time": DECIMAL},
    "error": {"type": TEXT}, "failure": {"type": TEXT}, "system-out": {}, "system-err": {}, "skipped": {},
}  # fmt: skip
MAY = {"testsuite": {"skipped": INT}, "error": {"message": TEXT}, "failure": {"message": TEXT},
       "skipped": {"message": TEXT}}  # fmt: skip
CHILDREN = {
    "testsuites": r"(testsuite )*", "testsuite": r"properties (testcase )*system-out system-err ",
    "properties": r"(property )*", "testcase": r"((skipped|error|failure) )?",
}  # fmt: skip


def violations(element: ElementTree.Element) -> list[str]:
    """What of this element and below breaks the schema."""
    must, may = ATTRIBUTES.get(element.tag), MAY.get(element.tag, {})
    if must is None:
        return [f"no such element: {element.tag}"]
    bad = [f"{element.tag} lacks {name}" for name in must if name not in element.attrib]
    for name, value in element.attrib.items():
        form = {**must, **may}.get(name)
        if form is None or not re.fullmatch(form, value):
            bad.append(f"{element.tag}: {name}={value!r}")
    children = "".join(f"{child.tag} " for child in element)
    if not re.fullmatch(CHILDREN.get(element.tag, ""), children):
        bad.append(f"{element.tag}: {children}")
    return bad + [line for child in element for line in violations(child)]


def suites(*reports: dict[str, Any], lost: tuple[UnreadableReport, ...] = ()) -> ElementTree.Element:
    merger = Merger(details=True)
    merger.add_all([*(ReceivedReport(one, "-") for one in reports), *lost])
    return ElementTree.fromstring(exports.junit_text(exports.export_nodes(merger.fleet())))  # noqa: S314


def test_junit_is_valid_and_says_why_and_how_long() -> None:
    whole = suites(report("a"), ready("b"), lost=(UnreadableReport("c", "-", "no route to host", True),))
    assert violations(whole) == []
    first, second, third = whole
    assert [suite.get("id") for suite in whole] == ["0", "1", "2"]
    assert first.get("timestamp") + "Z" == report("a")["started"]  # type: ignore[operator]
    cases = {case.get("name"): case for case in first.iter("testcase")}
    for row in report("a")["results"]:
        case = cases[row["check"]]
        assert float(case.get("time") or "") == pytest.approx(row["seconds"], abs=0.001)
        if row["reason"] and not row["findings"]:
            (ending,) = case
            assert ending.get("message") == row["reason"], row["check"]
    assert float(first.get("time") or "") == pytest.approx(report("a")["seconds"], abs=0.001)
    assert len(list(second.iter("skipped"))) == int(second.get("skipped") or "") > 0
    (error,) = third.iter("error")
    assert (error.get("type"), error.get("message")) == ("silent", "no route to host")


def test_a_warning_fails_no_case_and_is_not_lost() -> None:
    one = ready("a")
    finding = {"code": "clock.off", "severity": "warning", "message": "3 s <late>"}
    one["results"].append({"check": "clock", "status": "problem", "findings": [finding]})
    (suite,) = suites(one)
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert suite.findtext("system-out") == "clock.off: 3 s <late>"


def test_junit_stays_valid_whatever_a_report_holds() -> None:
    odd = ready("odd", started="9999-99-99T99:99:99Z", seconds=float("nan"))
    odd["results"][0].update(seconds=-5, reason=7)
    bare = {"schema": "npudoctor.report/1", "host": {"name": "bare"}, "results": [{"check": "x"}]}
    whole = suites(*hostile(), odd, bare, report("old", seconds="x", started=None))
    assert violations(whole) == [] and len(whole) > 3


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", " =", "\t=", "\r\n@", "＝", "－", "　＋"])
def test_no_cell_is_a_formula(sign: str) -> None:
    evil = f'{sign}cmd|"/c calc"!A0,\n"x'
    subject = ExportNode(evil, "ready", evil, (ExportRow(evil, "ok"),), ((evil, evil, "error", evil),))
    (_head, row) = csv.reader(io.StringIO(exports.csv_text([subject])))
    assert len(row) == 6
    for cell in row:
        assert "\n" not in cell
        assert cell.lstrip()[:1] not in tuple("=+-@＝＋－＠"), cell


def npd(message: str, code: str = "disk-space.full") -> str:
    subject = ExportNode("n", "not_ready", "not ready", (), (("disk-space", code, "error", message),))
    return exports.npd_line(subject)


def test_npd_ends_with_a_whole_word() -> None:
    dice = random.Random(7)  # noqa: S311
    for _round in range(500):
        words = ["x" * dice.randint(1, 12) for _word in range(dice.randint(1, 20))]
        message = " ".join(words)
        line = npd(message)
        assert len(line.encode()) <= NPD_BYTES + 1 and line.endswith("\n")
        whole = f"disk-space.full: {message}"
        if len(whole) <= NPD_BYTES:
            assert line == whole + "\n"
        else:
            assert line.endswith("…\n")
            kept = line[: -len("…\n")]
            assert whole.startswith(kept + " "), (whole, line)
            assert len(kept) > NPD_BYTES - 3 - 13  # no more is left out than the word that has no room


@pytest.mark.parametrize("message", ["磁盘空间不足" * 20, "/" + "a" * 300, "空间 " * 60])
def test_npd_cuts_what_has_no_blanks_between_characters(message: str) -> None:
    line = npd(message)
    assert NPD_BYTES - 12 <= len(line.encode()) <= NPD_BYTES + 1
    assert f"disk-space.full: {message}".startswith(line[: -len("…\n")]) and line.endswith("…\n")


def test_nagios_has_one_first_line_with_numbers_and_a_status_that_it_knows() -> None:
    for state, warnings, status in (
        ("ready", 0, 0), ("ready", 2, 1), ("not_ready", 1, 2), ("undetermined", 0, 3), ("silent", 0, 3)
    ):  # fmt: skip
        findings = (("c", "c.w", "warning", "odd | 'x'=1\nnext"),) * warnings
        code, text = exports.nagios_result(ExportNode("n", state, "a | b\nc", (), findings), 1.5)
        first, *rest = text.splitlines()
        assert code == status and text.count("|") == 1 and len(rest) == warnings
        assert re.fullmatch(
            r"(OK|WARNING|CRITICAL|UNKNOWN): [^|]+ \| 'errors'=0;;0 'warnings'=\d;0 'seconds'=1\.50s", first
        )
