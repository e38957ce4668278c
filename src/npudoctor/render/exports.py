"""What other programs read: JUnit XML, Prometheus' text format, CSV, the line of a Nagios plug-in."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from npudoctor.core.frozen import dataclass
from npudoctor.fleet.merge import Fleet
from npudoctor.render.printable import printable

NPD_BYTES = 79  # of node-problem-detector's 80, one is the end of the line
_NUMBERS = {"ready": 1, "not_ready": 0, "undetermined": -1, "silent": -1}


@dataclass(frozen=True)
class Subject:
    """One node as these formats see it. `findings`: (check, code, severity, message)."""

    name: str
    state: str
    msg: str
    rows: tuple[tuple[str, str], ...]
    findings: tuple[tuple[str, str, str, str], ...]


def subjects(fleet: Fleet) -> list[Subject]:
    """The nodes of a fleet; of each finding the message of the first node that has it."""
    found: dict[str, list[tuple[str, str, str, str]]] = {}
    for finding in fleet.findings:
        for name in finding.nodes:
            found.setdefault(name, []).append(
                (finding.check, finding.code, finding.severity, finding.message)
            )
    return [
        Subject(node.name, node.state, node.error or node.msg, node.rows, tuple(found.get(node.name, ())))
        for node in fleet.nodes
    ]


def junit(nodes: Iterable[Subject]) -> str:
    """One suite a node, one case a check. Unknown is an error, a warning no failure."""
    suites = [_suite(node) for node in nodes]
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="npudoctor">\n'
        + "".join(suites)
        + "</testsuites>\n"
    )


def _suite(node: Subject) -> str:
    cases = [_case(node, check, status) for check, status in node.rows]
    if not node.rows or (
        node.state in ("undetermined", "silent") and not any("<error" in case for case in cases)
    ):
        name = quoteattr(printable(node.name))
        cases.append(
            f'    <testcase classname={name} name="report">'
            f"<error message={quoteattr(printable(node.msg))}/></testcase>\n"
        )
    counts = {kind: sum(f"<{kind}" in case for case in cases) for kind in ("failure", "error", "skipped")}
    return (
        f'  <testsuite name={quoteattr(printable(node.name))} tests="{len(cases)}" failures="{counts["failure"]}"'  # noqa: E501
        f' errors="{counts["error"]}" skipped="{counts["skipped"]}">\n' + "".join(cases) + "  </testsuite>\n"
    )


def _case(node: Subject, check: str, status: str) -> str:
    inner = ""
    told = [row for row in node.findings if row[0] == check]
    errors = [row for row in told if row[2] == "error"]
    if errors:
        text = "\n".join(f"{code}: {message}" for _check, code, _severity, message in told)
        inner = (
            f"<failure type={quoteattr(printable(errors[0][1]))} message={quoteattr(printable(errors[0][3]))}>"  # noqa: E501
            f"{escape(_lines(text))}</failure>"
        )
    elif status == "skipped":
        inner = "<skipped/>"
    elif status not in ("ok", "problem"):
        inner = f'<error message="{status}"/>'
    return (
        f"    <testcase classname={quoteattr(printable(node.name))} name={quoteattr(printable(check))}>"
        f"{inner}</testcase>\n"
    )


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


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
        for check, status in dict(node.rows).items():
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
            writer.writerow(map(_cell, (node.name, node.state, severity, check, code, message)))
    return out.getvalue()


def _cell(text: str) -> str:
    """A spreadsheet would compute what begins like a formula."""
    shown = printable(text)
    return "'" + shown if shown[:1] in ("=", "+", "-", "@") else shown


def nagios(subject: Subject, seconds: float) -> tuple[int, str]:
    """Status and text of a plug-in: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN; numbers on the first line."""
    warnings = sum(severity == "warning" for _check, _code, severity, _message in subject.findings)
    errors = sum(severity == "error" for _check, _code, severity, _message in subject.findings)
    status = {"not_ready": 2, "undetermined": 3, "silent": 3}.get(subject.state, 1 if warnings else 0)
    word = ("OK", "WARNING", "CRITICAL", "UNKNOWN")[status]
    numbers = f"'errors'={errors};;0 'warnings'={warnings};0 'seconds'={seconds:.2f}s"
    lines = [f"{word}: {_piped(subject.msg)} | {numbers}"]
    lines += (
        f"{code}: {_piped(message)}"
        for _check, code, severity, message in subject.findings
        if severity in ("error", "warning")
    )
    return status, "\n".join(lines) + "\n"


def _piped(text: str) -> str:
    """Nagios takes what follows a bar for numbers."""
    return printable(text).replace("|", "/")


def npd(subject: Subject) -> str:
    """The line for node-problem-detector, which keeps 80 bytes of it: the code that decides comes first."""
    order = ("error", "warning") if subject.state == "not_ready" else ()
    told = sorted((row for row in subject.findings if row[2] in order), key=lambda row: order.index(row[2]))
    text = f"{told[0][1]}: {told[0][3]}" if told else subject.msg
    line = printable(text).encode("utf-8")[:NPD_BYTES]
    return line.decode("utf-8", "ignore") + "\n"
