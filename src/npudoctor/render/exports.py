"""Renders reports for other programs: JUnit XML, Prometheus' text format, CSV, Nagios,
node-problem-detector."""

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

NPD_BYTES = 79  # node-problem-detector keeps 80 bytes, with the line feed
_MORE = "…"
_WORD = 20  # characters; a longer word is cut within
_FORMULA = tuple("=+-@＝＋－＠")
_STAMP = "%Y-%m-%dT%H:%M:%S"
_NUMBERS = {"ready": 1, "not_ready": 0, "undetermined": -1, "silent": -1}


@dataclass(frozen=True)
class ExportRow:
    """The result of one check. `reason`, `seconds`: "" and 0 when the report does not tell them."""

    check: str
    status: str
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class ExportNode:
    """One node as these formats need it. `findings`: tuples of (check, code, severity, message)."""

    name: str
    state: str
    msg: str
    rows: tuple[ExportRow, ...]
    findings: tuple[tuple[str, str, str, str], ...]
    started: str = ""
    seconds: float = 0.0


def export_nodes(fleet: Fleet) -> list[ExportNode]:
    """The nodes of a fleet; the message of a finding is that of the first node that has it."""
    findings: dict[str, list[tuple[str, str, str, str]]] = {}
    for finding in fleet.findings:
        for name in finding.nodes:
            findings.setdefault(name, []).append(
                (finding.check, finding.code, finding.severity, finding.message)
            )
    return [
        ExportNode(
            node.name,
            node.state,
            node.error or node.msg,
            tuple(ExportRow(*row, *more) for row, more in zip(node.rows, node.details or repeat(("", 0.0)))),
            tuple(findings.get(node.name, ())),
            node.started,
            node.seconds,
        )
        for node in fleet.nodes
    ]


def junit_text(nodes: Iterable[ExportNode]) -> str:
    """JUnit XML with one suite per node and one case per check.

    It follows the schema of Apache Ant, the strictest one in use. An unknown check is an error; warnings are
    not failures, and are listed in the suite's output.
    """
    suites = [_test_suite(number, node) for number, node in enumerate(nodes)]
    return '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n' + "".join(suites) + "</testsuites>\n"


def _test_suite(number: int, node: ExportNode) -> str:
    cases = [_test_case(node, row) for row in node.rows]
    if not node.rows or (
        node.state in ("undetermined", "silent") and not any("<error" in case for case in cases)
    ):
        cases.append(
            _test_case_element(
                node, ExportRow("report", node.state), _outcome_element("error", node.state, node.msg)
            )
        )
    name = _attribute(node.name or "localhost")
    counts = {kind: sum(f"<{kind}" in case for case in cases) for kind in ("failure", "error", "skipped")}
    warnings = [
        f"{code}: {message}" for _check, code, severity, message in node.findings if severity == "warning"
    ]
    stamp = "1970-01-01T00:00:00"  # the schema requires one, also when the report has no valid start
    with suppress(ValueError):  # in UTC: the schema allows no time zone
        stamp = time.strftime(_STAMP, time.strptime(node.started, f"{_STAMP}Z"))
    return (
        # The Ant schema requires all attributes of this element but skipped.
        f'  <testsuite package="npudoctor" id="{number}" name={name} hostname={name}'
        f' timestamp="{stamp}" time="{node.seconds:.3f}" tests="{len(cases)}"'
        f' failures="{counts["failure"]}" errors="{counts["error"]}" skipped="{counts["skipped"]}">\n'
        f'    <properties><property name="verdict" value={_attribute(node.state)}/>'
        f'<property name="message" value={_attribute(node.msg)}/></properties>\n'
        + "".join(cases)
        + f"    <system-out>{escape(_join_lines(warnings))}</system-out>\n    <system-err/>\n  </testsuite>\n"
    )


def _test_case(node: ExportNode, row: ExportRow) -> str:
    findings = [finding for finding in node.findings if finding[0] == row.check]
    errors = [finding for finding in findings if finding[2] == "error"]
    inner = ""
    if errors:
        text = _join_lines([f"{code}: {message}" for _check, code, _severity, message in findings])
        inner = _outcome_element("failure", errors[0][1], errors[0][3], text)
    elif row.status == "skipped":
        inner = f"<skipped message={_attribute(row.reason)}/>" if row.reason else "<skipped/>"
    elif row.status not in ("ok", "problem"):
        inner = _outcome_element("error", row.status, row.reason or row.status)
    return _test_case_element(node, row, inner)


def _test_case_element(node: ExportNode, row: ExportRow, inner: str) -> str:
    return (
        f"    <testcase classname={_attribute(node.name)} name={_attribute(row.check)}"
        f' time="{row.seconds:.3f}">{inner}</testcase>\n'
    )


def _outcome_element(kind: str, type: str, message: str, text: str = "") -> str:
    return f"<{kind} type={_attribute(type)} message={_attribute(message)}>{escape(text)}</{kind}>"


def _attribute(text: str) -> str:
    return quoteattr(printable(text))


def _join_lines(lines: Iterable[str]) -> str:
    return "\n".join(map(printable, lines))


def prometheus_text(nodes: Iterable[ExportNode], finished: float) -> str:
    """Metrics for the textfile collector, which rejects time stamps: the time is a gauge of its own."""
    nodes = list(nodes)
    return "".join(_metrics(nodes, finished))


def _metrics(nodes: list[ExportNode], finished: float) -> Iterator[str]:
    yield "# HELP npudoctor_ready 1 ready, 0 not ready, -1 undetermined or silent\n# TYPE npudoctor_ready gauge\n"  # noqa: E501
    for node in nodes:
        yield f"npudoctor_ready{{node={_quote_label(node.name)}}} {_NUMBERS.get(node.state, -1)}\n"
    yield "# HELP npudoctor_check_status 1 for the ending of each check\n# TYPE npudoctor_check_status gauge\n"  # noqa: E501
    for node in nodes:
        for check, status in {row.check: row.status for row in node.rows}.items():
            if status != "skipped":
                yield (
                    f"npudoctor_check_status{{node={_quote_label(node.name)},id={_quote_label(check)},"
                    f"status={_quote_label(status)}}} 1\n"
                )
    yield "# HELP npudoctor_finding 1 for each finding\n# TYPE npudoctor_finding gauge\n"
    for node in nodes:
        for code, severity in {code: severity for _check, code, severity, _message in node.findings}.items():
            yield f"npudoctor_finding{{node={_quote_label(node.name)},code={_quote_label(code)},severity={_quote_label(severity)}}} 1\n"  # noqa: E501
    yield "# HELP npudoctor_last_run_timestamp_seconds When this was made\n"
    yield f"# TYPE npudoctor_last_run_timestamp_seconds gauge\nnpudoctor_last_run_timestamp_seconds {finished:.0f}\n"  # noqa: E501


def _quote_label(text: str) -> str:
    return '"' + printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def csv_text(nodes: Iterable[ExportNode]) -> str:
    """CSV with a line per finding, and one for each node without findings."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("node", "state", "severity", "check", "code", "message"))
    for node in nodes:
        for check, code, severity, message in node.findings or (("", "", "", node.msg),):
            cells = [printable(text) for text in (node.name, node.state, severity, check, code, message)]
            # A spreadsheet would evaluate a cell that begins like a formula, also after blanks and in full
            # width.
            writer.writerow(f"'{cell}" if cell.lstrip()[:1] in _FORMULA else cell for cell in cells)
    return out.getvalue()


def nagios_result(subject: ExportNode, seconds: float) -> tuple[int, str]:
    """Exit code and text of a Nagios plug-in: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN, with performance
    data."""
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
    """Replace bars, after which Nagios expects performance data."""
    return printable(text).replace("|", "/")


def npd_line(subject: ExportNode) -> str:
    """The line for node-problem-detector, which keeps 80 bytes: the deciding code comes first."""
    order = ("error", "warning") if subject.state == "not_ready" else ()
    decisive = sorted(
        (row for row in subject.findings if row[2] in order), key=lambda row: order.index(row[2])
    )
    text = f"{decisive[0][1]}: {decisive[0][3]}" if decisive else subject.msg
    return _fit_bytes(printable(text), NPD_BYTES) + "\n"


def _fit_bytes(text: str, most: int) -> str:
    """Cut a text to at most `most` bytes of UTF-8, after a whole word, and append an ellipsis.

    A word of more than _WORD characters, as a path, is cut after a whole character.
    """
    if len(text.encode()) <= most:
        return text
    end = len(text.encode()[: most - len(_MORE.encode())].decode("utf-8", "ignore"))
    # Only within ASCII words a cut is bad; Chinese may be cut anywhere.
    begin = next(
        (
            index
            for index in range(end, max(0, end - _WORD), -1)
            if not all(char.isascii() and char != " " for char in text[index - 1 : index + 1])
        ),
        end,
    )
    return text[:begin].rstrip(" ,;:，；：、") + _MORE
