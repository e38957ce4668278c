"""The list of earlier runs: a line each, however much they did."""

from __future__ import annotations

import pytest

from npudoctor.core import messages
from npudoctor.fixing.history import FixRun
from npudoctor.render.columns import width
from npudoctor.render.history import history_text

MSG = "12 refused, 3 by hand, " * 8


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_run_takes_one_line_however_many(language: str) -> None:
    runs = [
        FixRun(f"run-{n}", "2026-01-01T00:00:00Z", None, "finished", 1, MSG, None, (), ()) for n in range(100)
    ]
    messages.activate(language)
    try:
        lines = history_text(runs).splitlines()
    finally:
        messages.activate("en")
    assert [line.split()[0] for line in lines] == [run.name for run in runs]
    assert all(width(line) <= 80 and line.endswith("...") for line in lines)


def test_what_became_of_a_run_since_is_said_in_its_line() -> None:
    runs = [
        FixRun("b", None, None, "finished", 0, "1 applied", "a", (), ()),
        FixRun("a", None, None, "finished", 0, "1 applied", None, ("b",), ()),
    ]
    assert history_text(runs).splitlines() == [
        "b  ?  undo; finished: 1 applied",
        "a  ?  finished: 1 applied; undone since",
    ]
