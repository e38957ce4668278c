"""What logs mean: the scan and the judgement of what was found, and a word on all that was not read."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from npudoctor.cli.request import ExplainRequest, read_rows
from npudoctor.cli.terminal import output
from npudoctor.cli.terminal.progress import LogProgress, stream_waiting
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

_SHOWN = 20  # lines on standard error about what was not read


def about_logs(inputs: Inputs, request: ExplainRequest) -> Explanation:
    """What all of the logs say together; what of them was not read is reported on stderr."""
    engine = make_engine_for_table(read_rows(prepare_table, request.variables))
    walk = inputs.walk
    for number, log in enumerate(walk.logs):
        begin = request.begins.get(log.identity, 0) if log.identity else 0
        if 0 < begin <= log.size:  # one that is shorter now was written from its start
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
    """What was too much to be looked at or read."""
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
    """What a pipe says."""
    # A pipe may take as long as it likes, unless --deadline was given.
    until = math.inf if path == "-" and request.seconds is None else inputs.until
    try:
        source = open_standard_input(until) if path == "-" else open_source(path, until)
    except UnreadableLog as why:
        return unread_evidence(path, str(why))
    name = _("standard input") if path == "-" else path
    try:
        with stream_waiting(name, lambda: source.bytes):
            return engine.scan_source(source, until)
    finally:
        source.close()


def _report_unread(walk: LogWalk, evidence: list[Evidence], unread: list[tuple[str, str]]) -> None:
    """One line for each input that was not read, or not to its end; of very many, for the first."""
    lines = [f"{path}: {why}" for path, why in (*unread, *walk.notes)]
    for line in lines[:_SHOWN]:
        output.complain(line)
    if len(lines) > _SHOWN:
        output.complain(_("and {count} more lines like these", count=len(lines) - _SHOWN))
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
