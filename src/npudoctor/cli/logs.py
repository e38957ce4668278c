"""Explains logs: scans them, ranks the causes, and reports all input that was not read."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from npudoctor.cli.request import ExplainRequest, read_rows
from npudoctor.cli.terminal import output
from npudoctor.cli.terminal.progress import LogProgress, show_stream_progress
from npudoctor.core.frozen import replace
from npudoctor.core.messages import _, ngettext
from npudoctor.explain.answer import Explanation, make_explanation
from npudoctor.explain.engine import Engine, make_engine_for_table
from npudoctor.explain.reading.gather import FILES, Inputs
from npudoctor.explain.reading.opening import UnreadableLog
from npudoctor.explain.reading.reading import unread_evidence
from npudoctor.explain.reading.sources import open_source, open_standard_input
from npudoctor.explain.reading.walk import ENTRIES, LogWalk
from npudoctor.explain.scanning.evidence import Evidence
from npudoctor.explain.signatures.prepared import prepare_table

_MOST_SHOWN = 20  # lines on standard error about input that was not read


def explain_logs(inputs: Inputs, request: ExplainRequest) -> Explanation:
    """The explanation of all logs together; input that was not read is reported on standard error."""
    engine = make_engine_for_table(read_rows(prepare_table, request.variables))
    walk = inputs.walk
    for number, log in enumerate(walk.logs):
        begin = request.begins.get(log.identity, 0) if log.identity else 0
        if 0 < begin <= log.size:  # a file that is shorter now was truncated, and written from its start
            walk.logs[number] = replace(log, begin=begin)
    with LogProgress() as progress:
        evidence = engine.scan_logs(walk.logs, progress=progress.show, until=inputs.until)
    evidence += [_read_once(engine, path, inputs, request) for path in inputs.pipes]
    unread = [
        *walk.problems,
        *_list_unread(walk),
        *((file.path, file.problem) for file in evidence if file.problem),
    ]
    _report_unread(walk, evidence, unread)
    seconds = time.monotonic() - request.started
    late = time.monotonic() >= inputs.until
    answer = make_explanation(engine.judge(evidence), evidence, seconds, unread=unread)
    return replace(answer, logs={log.path: log for log in walk.logs}, late=inputs.seconds if late else None)


def _list_unread(walk: LogWalk) -> Iterator[tuple[str, str]]:
    """Yield a placeholder path and the reason for files and entries beyond the limits."""
    if walk.older:
        yield (
            "...",
            _(
                "only the {most} newest files are read; {count} older files are skipped",
                most=FILES,
                count=walk.older,
            ),
        )
    if walk.more:
        yield (
            "...",
            _(
                "only the first {most} entries are examined; {count} more and everything below them are "
                "skipped",
                most=ENTRIES,
                count=walk.more,
            ),
        )


def _read_once(engine: Engine, path: str, inputs: Inputs, request: ExplainRequest) -> Evidence:
    """Scan a pipe, or standard input for "-"; it can be read only once."""
    # The program at the other end may take any time, unless --deadline was given.
    until = math.inf if path == "-" and request.seconds is None else inputs.until
    try:
        source = open_standard_input(until) if path == "-" else open_source(path, until)
    except UnreadableLog as why:
        return unread_evidence(path, str(why))
    name = _("standard input") if path == "-" else path
    try:
        with show_stream_progress(name, lambda: source.bytes):
            return engine.scan_source(source, until)
    finally:
        source.close()


def _report_unread(walk: LogWalk, evidence: list[Evidence], unread: list[tuple[str, str]]) -> None:
    """Report each input that was not read, or not to its end; at most _MOST_SHOWN lines."""
    lines = [f"{path}: {why}" for path, why in (*unread, *walk.notes)]
    for line in lines[:_MOST_SHOWN]:
        output.complain(line)
    if len(lines) > _MOST_SHOWN:
        output.complain(_("and {count} more lines like these", count=len(lines) - _MOST_SHOWN))
    binary = [*walk.left_out, *(log.path for log in evidence if log.is_binary)]
    if binary:
        output.complain(
            ngettext(
                "{count} file is not a log and was not read: {path}",
                "{count} files are not logs and were not read: {path} ...",
                len(binary),
                count=len(binary),
                path=binary[0],
            )
        )
