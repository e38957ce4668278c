"""Each line that is shown names what is there, and changes what is said: a fault on one machine, in turn."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from npudoctor.core.model import Finding, Report, Severity
from npudoctor.host import Host
from npudoctor.runner.runner import Settings, run

from .fault import Fault
from .machines import Machine, host_of, judge
from .remedies import COMMANDS, lacking, typed
from .test_faults import CASES, LOADED, MACHINES, reported


def _said(report: Report) -> Iterator[tuple[str, Finding]]:
    """All findings, each with its check."""
    for row in report.results:
        yield from ((row.check, finding) for finding in row.findings)


def _untrue(host: Host, finding: Finding) -> list[str]:
    """What the sentences of a finding name beside its lines, and is not there."""
    sentences = [finding.message, *finding.evidence, *([finding.fix.title] if finding.fix else [])]
    scripts = [path for text in sentences for path in re.findall(r"\bsource (/\S+)", text)]
    verbs = [word for text in sentences for word in re.findall(r"\$\(npudoctor (\w+)", text)]
    pointing = [text for text in sentences if re.search(r"these (options|lines)|stands? above", text)]
    gone = [path for path in scripts if host.files.stat(path) is None]
    return [*gone, *pointing, *(word for word in verbs if word not in COMMANDS)]


def _again(machine: Machine, check: str) -> list[tuple[str, str]]:
    """What the check says now."""
    host = host_of(machine)
    try:
        report = run(LOADED, host, Settings(select=(check,)))
        return [(finding.code, finding.message) for row in report.results for finding in row.findings]
    finally:
        host.close()


@pytest.mark.parametrize(("fault", "machine"), CASES)
def test_every_line_works_there(fault: Fault, machine: Machine) -> None:
    broken = fault.on(machine)
    host = host_of(broken)
    try:
        for check, finding in _said(reported(fault, machine)):
            assert _untrue(host, finding) == [], finding.code
            lines = finding.fix.commands if finding.fix else ()
            if finding.weight is Severity.ERROR:  # lines, or a sentence that says who does what where
                assert lines or (finding.fix and finding.fix.title), finding.code
            assert lacking(broken, host, lines) == [], finding.code
            after = typed(broken, lines) if lines else None
            if after is not None:
                assert (finding.code, finding.message) not in _again(after, check), lines
    finally:
        host.close()


def test_the_lines_of_healthy_machines_work_too() -> None:
    for machine in MACHINES[::5]:
        host = host_of(machine)
        for _check, finding in _said(judge(LOADED, machine)):
            lines = finding.fix.commands if finding.fix else ()
            assert lacking(machine, host, lines) == _untrue(host, finding) == [], (machine.name, finding.code)
        host.close()
