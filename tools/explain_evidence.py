"""Bring evidence.toml up to date with judged excerpts of real logs, one JSON object a line: signature, url,
outcome (right or wrong), log.

An excerpt counts for or against its signature where `explain` gives that signature as its first answer today:
one that a mended signature does not answer any more is no evidence. Written is where each log stands, and not
the log.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Optional

from npudoctor.explain.engine import Engine, make_engine
from npudoctor.explain.signatures.signatures import EVIDENCE, LEAST_REPOSITORIES, built_in
from npudoctor.knowledge.tables import parse_toml

OUTCOMES = ("right", "wrong")
_ON_GITHUB = re.compile(
    r"https?://(?:www\.)?github\.com/([^/]+/[^/#]+)"
    r"(?:/(?:issues|pull|discussions)/(?P<thread>\d+)|/(?:blob|tree|raw)/[^/]+/(?P<file>[^#?]+))?"
)
_HEAD = f"""\
# What real logs say of the signatures that may be called certain: where an excerpt stands of which each is
# the first answer, and whether that was the cause, as its thread established it. Fewer than
# {LEAST_REPOSITORIES} repositories, or one in which it is wrong: its answer is "likely" at most.
# Written by tools/explain_evidence.py.
"""

Evidence = dict[str, dict[str, set[str]]]


def main(argv: Optional[list[str]] = None) -> int:
    """Merge the files into evidence.toml."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    asked = parser.parse_args(argv)
    texts = [path.read_text(encoding="utf-8") for path in asked.files]
    rows = [json.loads(line) for content in texts for line in content.splitlines() if line.strip()]
    path = Path(EVIDENCE)
    evidence = merged(read(path), rows, make_engine(built_in()))
    path.write_text(text(evidence), encoding="utf-8")
    return 0


def read(path: Path) -> Evidence:
    """What the file says."""
    document = parse_toml(path.read_text(encoding="utf-8"))
    return {ident: {key: set(logs.get(key, ())) for key in OUTCOMES} for ident, logs in document.items()}


def merged(evidence: Evidence, rows: Iterable[dict[str, Any]], engine: Engine) -> Evidence:
    """With these excerpts, each judged anew."""
    result: Evidence = defaultdict(lambda: {key: set() for key in OUTCOMES}, evidence)
    rows = [row for row in rows if row["outcome"] in OUTCOMES and row["log"].strip() and row["url"]]
    for row in rows:  # first, as a thread may have several excerpts
        for places in result[row["signature"]].values():
            places.discard(source(row))
    for row in rows:
        judged = engine.judge([engine.scan_text(row["log"])])
        is_answer = bool(judged.diagnoses) and judged.diagnoses[0].signature.id == row["signature"]
        if is_answer and judged.verdict != "clean":
            result[row["signature"]][row["outcome"]].add(source(row))
    return result


def source(row: dict[str, Any]) -> str:
    """The place of an excerpt: owner/name#, with a thread's number or a file's path; else its address."""
    place = _ON_GITHUB.match(row["url"])
    if place is None:
        return re.sub(r"^https?://", "", row["url"])
    return f"{place[1]}#{place['thread'] or place['file'] or ''}".rstrip("#")


def text(evidence: Evidence) -> str:
    """As the file has it, by name."""
    parts = [_HEAD]
    for ident, logs in sorted(evidence.items()):
        if any(logs.values()):
            parts += [f"\n[{ident}]\n", *(_list(key, logs[key]) for key in OUTCOMES if logs[key])]
    return "".join(parts)


def _list(key: str, sources: set[str]) -> str:
    return f"{key} = [\n" + "".join(f"    {json.dumps(one)},\n" for one in sorted(sources)) + "]\n"


if __name__ == "__main__":
    raise SystemExit(main())
