"""What a rehearsal reads from a report, and what is no answer in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from npudoctor.rehearsal.faults import FAULTS
from npudoctor.rehearsal.play import RehearsalOutput, _Rehearsal
from npudoctor.rehearsal.stage import Stage

FAULT = FAULTS["slow-clock"]


@pytest.mark.parametrize(
    ("rows", "has_answer"),
    [
        ([], False),
        ([{"check": "another-check", "status": "ok", "findings": []}], False),
        ([{"check": FAULT.check, "status": "unknown", "findings": []}], False),
        ([{"check": FAULT.check, "status": "ok", "findings": []}], True),
    ],
)
def test_only_a_row_of_the_check_is_an_answer(rows: list[dict[str, Any]], has_answer: bool) -> None:
    voice = RehearsalOutput(say=lambda line: None, report=lambda text: None, terminal=None)
    rehearsal = _Rehearsal(FAULT, Stage(), [], (), voice)
    assert rehearsal._parse_report(json.dumps({"results": rows}).encode()) == (None, has_answer)
