"""The work of `npudoctor fleet report`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any, Optional

from npudoctor.cli.arguments.paths import writable
from npudoctor.cli.config import UsageError
from npudoctor.cli.terminal import output
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.fleet import nodes, reading
from npudoctor.fleet.merge import Fleet, Merger
from npudoctor.host.fs.files import Files, LocalDisk


@dataclass(frozen=True)
class ReportRequest:
    """What was asked for. `nodes`: print only this set; `expected`: a node set of -w."""

    files: tuple[str, ...]
    format: str
    nodes: Optional[str]
    expected: Optional[str]
    output: Optional[str]
    variables: Mapping[str, str]


def report_fleet(request: ReportRequest) -> int:
    """Read, merge and deliver; the exit status is the verdict of all nodes."""
    started = time.time()
    if not request.files:
        raise UsageError(_("no report is named; - reads standard input"))
    for path in request.files:
        if path != "-" and not os.path.exists(path):
            raise UsageError(_("{option}: {path} does not exist").format(option="FILES", path=path))
    target = _target(request.output)
    try:
        nodes.require_library()
        merger = Merger(_expected(request))
        with tempfile.TemporaryFile("w+", encoding="utf-8") as spool:
            _read(request, merger, spool if request.format == "json" and request.nodes is None else None)
            fleet = merger.fleet()
            _deliver(_content(request, fleet, spool, started), target)
    except nodes.InvalidNodes as error:
        raise UsageError(str(error)) from error
    return fleet.exit_code


def _target(path: Optional[str]) -> Optional[str]:
    disk = LocalDisk()
    try:
        return writable(path, Files(disk))
    finally:
        disk.close()


def _expected(request: ReportRequest) -> tuple[str, ...]:
    text = request.expected
    if text is None:
        text = request.variables.get("SLURM_JOB_NODELIST", "")
    return nodes.expand(text) if text else ()


def _read(request: ReportRequest, merger: Merger, spool: Optional[IO[str]]) -> None:
    for item in reading.read(request.files, sys.stdin.buffer):
        if isinstance(item, reading.Found) and spool is not None:
            if merger.add(item):
                spool.write(_line(item) + "\n")
        else:
            merger.add_all((item,))


def _line(item: reading.Found) -> str:
    """What the JSON document repeats of a report: all of it, unless JSON cannot hold it."""
    from npudoctor.core.redact.redact import redact_value
    from npudoctor.render.json_text import json_text

    name = item.report["host"]["name"]
    try:
        report = redact_value(item.report)
        json_text([[[[[[report]]]]]])
    except (ValueError, RecursionError):
        report = {"node": name, "error": _("the report is nested too deeply or is not JSON")}
    return json.dumps([name, report])


def _content(request: ReportRequest, fleet: Fleet, spool: IO[str], started: float) -> str:
    if request.nodes is not None:
        names = fleet.names(request.nodes.replace("-", "_"))
        for odd in (name for name in names if not nodes.is_safe(name)):
            output.complain(_("{text!r} is not a node name").format(text=odd))
        return nodes.fold(filter(nodes.is_safe, names)) + "\n"
    if request.format == "json":
        from npudoctor.render.fleet_json import fleet_object
        from npudoctor.render.json_text import json_text

        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started))
        return json_text(fleet_object(fleet, stamp, max(0.0, time.time() - started), _reports(spool)))
    if request.format == "html":
        from npudoctor.render.fleet_html import fleet_html

        return fleet_html(fleet)
    if request.format == "text":
        from npudoctor.cli.terminal.reports import has_colour
        from npudoctor.render.fleet_text import fleet_text

        return fleet_text(fleet, colour=request.output is None and has_colour())
    from npudoctor.render import exports

    subjects = exports.subjects(fleet)
    if request.format == "junit":
        return exports.junit(subjects)
    return (
        exports.csv_text(subjects) if request.format == "csv" else exports.prometheus(subjects, time.time())
    )


def _reports(spool: IO[str]) -> Iterator[Any]:
    """Of each node the newest, in the order in which they came."""
    spool.seek(0)
    newest: dict[str, int] = {}
    for number, line in enumerate(spool):
        newest[json.loads(line)[0]] = number
    spool.seek(0)
    for number, line in enumerate(spool):
        name, report = json.loads(line)
        if newest[name] == number:
            yield report


def _deliver(content: str, target: Optional[str]) -> None:
    if target is None:
        output.emit(content, "utf-8")
    else:
        output.save(target, content)
