"""Writes a report in the formats of other programs: JUnit, Prometheus, Nagios, node-problem-detector."""

from __future__ import annotations

import time
from typing import Optional

from npudoctor.cli.terminal import output
from npudoctor.core.model import Report
from npudoctor.fleet.merge import Merger
from npudoctor.fleet.reading import ReceivedReport
from npudoctor.render import exports
from npudoctor.render.report_json import report_object


def report_nagios_error(why: str) -> int:
    """Print a usage error for Nagios; returns 3 (UNKNOWN), as Nagios knows the exit codes 0 to 3 only."""
    output.emit(f"UNKNOWN: {why}\n")
    return 3


def deliver_export(report: Report, format: str, target: Optional[str]) -> int:
    """Write the report; returns the exit code for the verdict, for Nagios one of its own."""
    merger = Merger(details=True)
    merger.add(ReceivedReport(report_object(report), "-", report.host.name or "localhost"))
    (subject,) = exports.export_nodes(merger.fleet())
    status, content = report.exit_code, ""
    if format == "junit":
        content = exports.junit_text([subject])
    elif format == "prometheus":
        content = exports.prometheus_text([subject], time.time())
    elif format == "nagios":
        status, content = exports.nagios_result(subject, report.seconds)
    else:
        content = exports.npd_line(subject)
    if target is None:
        output.emit(content)
    else:
        output.save(target, content)
    return status
