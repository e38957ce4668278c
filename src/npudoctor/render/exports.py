"""What other programs read: JUnit XML, Prometheus' text format, CSV, the line of a Nagios plug-in."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import repeat
from xml.sax.saxutils import escape, quoteattr

from npudoctor.core.frozen import dataclass
from npudoctor.fleet.merge import Fleet
from npudoctor.render.printable import printable

NPD_BYTES = 79  # of node-problem-detector's 80, one is the end of the line
_MORE = "…"
_WORD = 20  # characters: a longer one, as a path, is cut itself
_FORMULA = tuple("=+-@＝＋－＠")
_STAMP = "%Y-%m-%dT%H:%M:%S"
_NUMBERS = {"ready": 1, "not_ready": 0, "undetermined": -1, "silent": -1}


@dataclass(frozen=True)
class Row:
    """How one check ended, why, and how long it took; of a report that does not say so, "" and 0."""

    check: str
    status: str
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Subject:
    """One node as these formats see it. `findings`: (check, code, severity, message)."""

    name: str
    state: str
    msg: str
    rows: tuple[Row, ...]
    findings: tuple[tuple[str, str, str, str], ...]
    started: str = ""
    seconds: float = 0.0


def subjects(fleet: Fleet) -> list[Subject]:
    """The nodes of a fleet; of each finding the message of the first node that has it."""
    findings: dict[str, list[tuple[str, str, str, str]]] = {}
    for finding in fleet.findings:
        for name in finding.nodes:
            findings.setdefault(name, []).append(
                (finding.check, finding.code, finding.severity, finding.message)
            )
    return [
        Subject(
            node.name,
            node.state,
            node.error or node.msg,
            tuple(Row(*row, *more) for row, more in zip(node.rows, node.details or repeat(("", 0.0)))),
            tuple(findings.get(node.name, ())),
            node.started,
            node.seconds,
        )
        for node in fleet.nodes
    ]


def junit(nodes: Iterable[Subject]) -> str:
    """One suite a node, one case a check, by the schema of Apache Ant, the strictest of those in use. Unknown
    is an error; a warning is no failure, and stands in the suite's output."""
    suites = [_suite(number, node) for number, node in enumerate(nodes)]
    return '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n' + "".join(suites) + "</testsuites>\n"


def _suite(number: int, node: Subject) -> str:
    cases = [_case(node, row) for row in node.rows]
    if not node.rows or (
        node.state in ("undetermined", "silent") and not any("<error" in case for case in cases)
    ):
        cases.append(
            _element(node, Row("report", node.state), _outcome_element("error", node.state, node.msg))
        )
    name = _attribute(node.name or "localhost")
    counts = {kind: sum(f"<{kind}" in case for case in cases) for kind in ("failure", "error", "skipped")}
    warnings = [
        f"{code}: {message}" for _check, code, severity, message in node.findings if severity == "warning"
    ]
    stamp = "1970-01-01T00:00:00"  # of a report that does not tell when it began
    with suppress(ValueError):  # in UTC; the schema allows no zone
        stamp = time.strftime(_STAMP, time.strptime(node.started, f"{_STAMP}Z"))
    return (
        f'  <testsuite package="npudoctor" id="{number}" name={name} hostname={name}'
        f' timestamp="{stamp}" time="{node.seconds:.3f}" tests="{len(cases)}"'
        f' failures="{counts["failure"]}" errors="{counts["error"]}" skipped="{counts["skipped"]}">\n'
        f'    <properties><property name="verdict" value={_attribute(node.state)}/>'
        f'<property name="message" value={_attribute(node.msg)}/></properties>\n'
        + "".join(cases)
        + f"    <system-out>{escape(_lines(warnings))}</system-out>\n    <system-err/>\n  </testsuite>\n"
    )


def _case(node: Subject, row: Row) -> str:
    findings = [finding for finding in node.findings if finding[0] == row.check]
    errors = [finding for finding in findings if finding[2] == "error"]
    inner = ""
    if errors:
        text = _lines([f"{code}: {message}" for _check, code, _severity, message in findings])
        inner = _outcome_element("failure", errors[0][1], errors[0][3], text)
    elif row.status == "skipped":
        inner = f"<skipped message={_attribute(row.reason)}/>" if row.reason else "<skipped/>"
    elif row.status not in ("ok", "problem"):
        inner = _outcome_element("error", row.status, row.reason or row.status)
    return _element(node, row, inner)


def _element(node: Subject, row: Row, inner: str) -> str:
    return (
        f"    <testcase classname={_attribute(node.name)} name={_attribute(row.check)}"
        f' time="{row.seconds:.3f}">{inner}</testcase>\n'
    )


def _outcome_element(kind: str, type: str, message: str, text: str = "") -> str:
    return f"<{kind} type={_attribute(type)} message={_attribute(message)}>{escape(text)}</{kind}>"


def _attribute(text: str) -> str:
    return quoteattr(printable(text))


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(map(printable, lines))


def prometheus(nodes: Iterable[Subject], finished: float) -> str:
    """For the textfile collector: no time stamps, so when it was made is a gauge of its own."""
    nodes = list(nodes)
    return "".join(_metrics(nodes, finished))


def _metrics(nodes: list[Subject], finished: float) -> Iterator[str]:
    yield "# HELP npudoctor_ready 1 ready, 0 not ready, -1 undetermined or silent\n# TYPE npudoctor_ready gauge\n"  # noqa: E501
    for node in nodes:
        yield f"npudoctor_ready{{node={_label(node.name)}}} {_NUMBERS.get(node.state, -1)}\n"
    yield "# HELP npudoctor_check_status 1 for the ending of each check\n# TYPE npudoctor_check_status gauge\n"  # noqa: E501
    for node in nodes:
        for check, status in {row.check: row.status for row in node.rows}.items():
            if status != "skipped":
                yield (
                    f"npudoctor_check_status{{node={_label(node.name)},id={_label(check)},"
                    f"status={_label(status)}}} 1\n"
                )
    yield "# HELP npudoctor_finding 1 for each finding\n# TYPE npudoctor_finding gauge\n"
    for node in nodes:
        for code, severity in {code: severity for _check, code, severity, _message in node.findings}.items():
            yield f"npudoctor_finding{{node={_label(node.name)},code={_label(code)},severity={_label(severity)}}} 1\n"  # noqa: E501
    yield "# HELP npudoctor_last_run_timestamp_seconds When this was made\n"
    yield f"# TYPE npudoctor_last_run_timestamp_seconds gauge\nnpudoctor_last_run_timestamp_seconds {finished:.0f}\n"  # noqa: E501


def _label(text: str) -> str:
    return '"' + printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def csv_text(nodes: Iterable[Subject]) -> str:
    """A line for each finding, and one for each node that has none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("node", "state", "severity", "check", "code", "message"))
    for node in nodes:
        for check, code, severity, message in node.findings or (("", "", "", node.msg),):
            cells = [printable(text) for text in (node.name, node.state, severity, check, code, message)]
            # A spreadsheet would compute what begins like a formula, behind blanks and in full width too.
            writer.writerow(f"'{cell}" if cell.lstrip()[:1] in _FORMULA else cell for cell in cells)
    return out.getvalue()


def nagios(subject: Subject, seconds: float) -> tuple[int, str]:
    """Status and text of a plug-in: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN; numbers on the first line."""
    warnings = sum(severity == "warning" for _check, _code, severity, _message in subject.findings)
    errors = sum(severity == "error" for _check, _code, severity, _message in subject.findings)
    status = {"not_ready": 2, "undetermined": 3, "silent": 3}.get(subject.state, 1 if warnings else 0)
    word = ("OK", "WARNING", "CRITICAL", "UNKNOWN")[status]
    numbers = f"'errors'={errors};;0 'warnings'={warnings};0 'seconds'={seconds:.2f}s"
    lines = [f"{word}: {_escape_bars(subject.msg)} | {numbers}"]
    lines += (
        f"{code}: {_escape_bars(message)}"
        for _check, code, severity, message in subject.findings
        if severity in ("error", "warning")
    )
    return status, "\n".join(lines) + "\n"


def _escape_bars(text: str) -> str:
    """Nagios takes what follows a bar for numbers."""
    return printable(text).replace("|", "/")


def npd(subject: Subject) -> str:
    """The line for node-problem-detector, which keeps 80 bytes of it: the code that decides comes first."""
    order = ("error", "warning") if subject.state == "not_ready" else ()
    decisive = sorted(
        (row for row in subject.findings if row[2] in order), key=lambda row: order.index(row[2])
    )
    text = f"{decisive[0][1]}: {decisive[0][3]}" if decisive else subject.msg
    return _fit_bytes(printable(text), NPD_BYTES) + "\n"


def _fit_bytes(text: str, most: int) -> str:
    """The text in so many bytes: whole words and a sign that there is more. Where a word is long, or the
    language has no blanks, it ends with a whole character."""
    if len(text.encode()) <= most:
        return text
    end = len(text.encode()[: most - len(_MORE.encode())].decode("utf-8", "ignore"))
    # Whether a cut there would part a word; Chinese may be parted anywhere.
    begin = next(
        (
            at
            for at in range(end, max(0, end - _WORD), -1)
            if not all(char.isascii() and char != " " for char in text[at - 1 : at + 1])
        ),
        end,
    )
    return text[:begin].rstrip(" ,;:，；：、") + _MORE
