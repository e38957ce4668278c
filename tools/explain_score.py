"""Scores of `npudoctor explain` on files of cases, one JSON object a line: id, category, environment, log.

Prints how many top-1 categories and verdicts are right, of the certain, likely and possible answers each, how
many healthy cases are clean, and the wrong ones. A case whose environment is null may have either verdict.
A case is healthy when its category is "healthy" or null. Of a folder of whole logs with a truth.tsv it
prints how
many of each kind are right (see long_logs.py).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Optional

import long_logs
import signature_audit
from npudoctor.explain.engine import Engine, make_engine
from npudoctor.explain.ranking.judge import Judgement
from npudoctor.explain.signatures.signatures import all_signatures
from npudoctor.knowledge.site import Knowledge

_VERDICTS = {True: "environment", False: "not_environment"}


def main(argv: Optional[list[str]] = None) -> int:
    """Score the files; 0 unless one of them cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--plain", action="store_true", help="with the engine that needs no hyperscan")
    parser.add_argument(
        "--signatures", action="store_true", help="instead: which fire on healthy logs, which never do"
    )
    parser.add_argument("--site", default="", help="a directory with more signatures")
    asked = parser.parse_args(argv)
    signatures, broken = all_signatures(Knowledge(asked.site))
    for one in broken:
        print(f"{one.path}: {one.reason}", file=sys.stderr)
    engine = make_engine(signatures, plain=asked.plain)
    if asked.signatures:
        print("\n".join(signature_audit.lines(engine, asked.files)))
        return 0
    for path in asked.files:
        if path.is_dir():
            print("\n".join([f"{path}:", *long_logs.lines(engine, path)]))
            continue
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        print("\n".join([f"{path}:", *lines(engine, rows)]))
    return 0


def lines(engine: Engine, rows: Iterable[dict[str, Any]]) -> Iterable[str]:
    """The wrong cases, then the scores."""
    ill = healthy = category = environment = clean = 0
    sure: dict[str, list[bool]] = {confidence: [] for confidence in ("certain", "likely", "possible")}
    for row in rows:
        judged = engine.judge([engine.scan_text(row["log"], row["id"])])
        said = answer(judged)
        if row["category"] in (None, "healthy"):
            healthy, clean = healthy + 1, clean + (judged.verdict == "clean")
            if judged.verdict != "clean":
                yield f"  {row['id']}: healthy, but {said}"
            continue
        expected = (
            [_VERDICTS[row["environment"]]] if row["environment"] is not None else [*_VERDICTS.values()]
        )
        right = judged.verdict in expected
        # Where the cause is in another log it is right to say so.
        right = right or bool(row.get("elsewhere") and judged.verdict == "unknown" and judged.elsewhere)
        named = bool(judged.diagnoses) and judged.diagnoses[0].signature.category == row["category"]
        named = named and judged.verdict not in ("clean", "unknown")
        ill, category, environment = ill + 1, category + named, environment + right
        if judged.verdict in _VERDICTS.values():
            sure[judged.diagnoses[0].confidence].append(right)
        if not (right and named):
            yield f"  {row['id']}: {row['category']}, environment {row['environment']}, but {said}"
    yield from (
        f"  {name}: {part}/{whole} = {part / whole:.1%}"
        for name, part, whole in (
            ("top-1 category right", category, ill),
            ("environment or not right", environment, ill),
            *((f"of the {name} ones", sum(rights), len(rights)) for name, rights in sure.items()),
            ("healthy and clean", clean, healthy),
        )
        if whole
    )


def answer(judged: Judgement) -> str:
    """What was said instead."""
    best = [f"{one.signature.id} [{one.signature.category}] {one.confidence}" for one in judged.diagnoses[:3]]
    errors = [spot.log_line.text[:100] for spot in judged.errors[:1]]
    return f"{judged.verdict}: {', '.join(best) or errors or 'nothing found'}"


if __name__ == "__main__":
    sys.exit(main())
