"""Scores of `npudoctor explain` on a folder of whole logs: beside them lies truth.tsv, which says what
happened in each.

A row of it: name, what happened (succeeded, running, failed, ended-from-outside, several-runs), whether the
environment is to blame (y, n, - or ?), the line that decides, and a reader's words. The logs are files of
that
name, with or without an ending, or lie packed in logs.tar.xz.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Optional

from npudoctor.explain.engine import Engine
from npudoctor.explain.ranking.judge import Judgement
from npudoctor.explain.reading.sources import encoding_of
from npudoctor.explain.scanning.evidence import Evidence

OUTSIDE = "ended-from-outside"
KINDS = ("succeeded", "running", "failed", OUTSIDE, "several-runs")
_NEAR = 40  # lines between the line that a reader names and the one that explain does
# How a reader's words about a file of several runs say how the last one ended.
_LAST = re.compile(r"(?i)(?:.*\blast\b|\bthen\b)(?: run)?[: ]*(.*)")
_ENDED = re.compile(r"(?i)sigterm|keyboard|ctrl|scancel|time limit|signal|killed|preempt|shut down")
_WELL = re.compile(r"(?i)\b(?:without|no) error")
_FAILED = re.compile(r"\bF\b|(?i:fail|error|exited with|no space|out of memory|missing|abort|crash)")


class Truth(NamedTuple):
    """A row of truth.tsv. `line`: the one that decides, None where there is none."""

    name: str
    kind: str
    environment: str
    line: Optional[int]
    words: str


def truths(path: Path) -> list[Truth]:
    """All rows of a truth.tsv."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Truth(name, kind, environment, int(line) if line.isdigit() else None, words)
        for name, kind, environment, line, words, *_source in (row for row in rows if len(row) > 4)
        if not name.startswith("#")
    ]


def logs(folder: Path) -> dict[str, bytes]:
    """The logs of a folder by their names without ending."""
    packed = folder / "logs.tar.xz"
    if packed.exists():
        with tarfile.open(packed) as archive:
            files = [(one.name, archive.extractfile(one)) for one in archive if one.isfile()]
            return {_stem(name): file.read() for name, file in files if file}
    return {_stem(one.name): one.read_bytes() for one in sorted(folder.iterdir()) if one.suffix != ".tsv"}


def evidence_of(engine: Engine, texts: Mapping[str, bytes], name: str) -> Evidence:
    """What a log says; in UTF-8, as the reader hands it to the scan, also when it was written in UTF-16."""
    log = texts[name]
    encoding = encoding_of(log[:4096])
    return engine.scan_bytes(
        log.decode(encoding, "replace").encode("utf-8", "replace") if encoding else log, name
    )


def _stem(name: str) -> str:
    return re.sub(r"\.(?:log|txt|out|err)$", "", name.rsplit("/", 1)[-1])


def lines(engine: Engine, folder: Path) -> Iterator[str]:
    """The wrong ones, then the table."""
    right = dict.fromkeys(KINDS, 0)
    total = dict.fromkeys(KINDS, 0)
    texts = logs(folder)
    for truth in truths(folder / "truth.tsv"):
        if truth.name not in texts:
            yield f"  {truth.name}: there is no such log"
            continue
        judged = engine.judge([evidence_of(engine, texts, truth.name)])
        good = correct(truth, judged)
        total[truth.kind] += 1
        right[truth.kind] += good
        if not good:
            line = f" at line {truth.line}" if truth.line else ""
            told = f"{truth.kind} ({truth.environment}){line} {truth.words}"
            yield f"  {truth.name}: {told}, but {said(judged)}"
    yield from _table(right, total)


def _table(right: dict[str, int], total: dict[str, int]) -> Iterator[str]:
    for kind in KINDS:
        if total[kind]:
            yield f"  {kind}: {right[kind]}/{total[kind]} = {right[kind] / total[kind]:.1%}"


def correct(truth: Truth, judged: Judgement) -> bool:
    """Whether explain says of a log what its reader does."""
    if truth.kind == "several-runs":
        return _ends(judged, _last(truth.words))
    if truth.kind == "failed":
        blamed = {"y": "environment", "n": "not_environment"}.get(truth.environment)
        return judged.verdict == (blamed or judged.verdict) != "clean" and _there(truth.line, judged)
    return _ends(judged, OUTSIDE if truth.kind == OUTSIDE else "clean")


def _last(words: str) -> str:
    """How the last run ended: clean, unless the reader says that it was ended or failed."""
    found = _LAST.search(words)
    told = found[1] if found else words
    if _ENDED.search(told):
        return OUTSIDE
    return "failed" if _FAILED.search(_WELL.sub("", told)) else "clean"


def _ends(judged: Judgement, ending: str) -> bool:
    outside = bool(judged.diagnoses) and judged.diagnoses[0].signature.category == OUTSIDE
    if ending == OUTSIDE:
        return outside and judged.verdict == "not_environment"
    if ending == "failed":
        return judged.verdict not in ("clean",) and not outside
    return judged.verdict == "clean"


def _there(line: Optional[int], judged: Judgement) -> bool:
    """Whether the best diagnosis, or the error that is shown where there is none, stands where a reader
    sees it."""
    if line is None:
        return True
    best = judged.diagnoses[:1] if judged.verdict != "unknown" else ()
    lines = [spot.log_line.line for one in best for spot in (one.first, one.last) if spot is not None]
    # The same failure may have ended an earlier run, which a reader saw first.
    same = {one.signature.id for one in best}
    lines += [
        run.last_error.line
        for run in judged.runs
        if run.last_error and run.signature and run.signature.id in same
    ]
    lines += [] if best else [spot.log_line.line for spot in judged.errors[:1]]
    return any(abs(one - line) <= _NEAR for one in lines)


def said(judged: Judgement) -> str:
    """What explain says."""
    best = [
        f"{one.signature.id} [{one.signature.category}] {one.confidence}"
        + (f" line {one.first.log_line.line}" if one.first else "")
        for one in judged.diagnoses[:3]
    ]
    errors = [f"{spot.log_line.line}: {spot.log_line.text[:100]}" for spot in judged.errors[:1]]
    return f"{judged.verdict}: {', '.join(best) or errors or 'nothing found'}"
