"""At 80 columns a report fits on one screen: of a healthy machine, and of one with three problems."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from npudoctor.core import messages
from npudoctor.core.model import Report, Severity
from npudoctor.registry.registry import load_all
from npudoctor.render.columns import width
from npudoctor.render.text import report_text

from .fault import Fault
from .gpu import gpu_machines
from .machines import Machine, all_machines, judge
from .matrix import FAULTS

LOADED = load_all({"NPUDOCTOR_CHECKS_DIR": ""})
LINES, COLUMNS = 24, 80
MACHINES = [*all_machines(), *gpu_machines()]
SEEDS = range(12)
# A line that is typed, and a word without a place to break it, are left whole.
TYPED = re.compile(r"^ {4,}(\S+ \S+.*|\S+$)|^  next")


@pytest.fixture(params=["en", "zh"])
def language(request: pytest.FixtureRequest) -> Iterator[str]:
    """The language of the report."""
    messages.activate(request.param)
    yield request.param
    messages.activate("en")


def problems(report: Report) -> int:
    return sum(
        finding.counts and finding.weight > Severity.INFO
        for row in report.results
        for finding in row.findings
    )


def three(seed: int) -> Report:
    """The report of a machine with three problems, chosen by chance."""
    chance = random.Random(seed)  # noqa: S311  (no secret)
    while True:
        machine = chance.choice(MACHINES)
        possible = [fault for fault in FAULTS if fault.where(machine)]
        report = _broken(machine, chance.sample(possible, 3))
        if problems(report) == 3:
            return report


def _broken(machine: Machine, faults: list[Fault]) -> Report:
    for fault in faults:
        machine = fault.on(machine)
    return judge(LOADED, machine)


def expect_a_screen(text: str) -> None:
    lines = text.splitlines()
    assert len(lines) <= LINES, text
    assert [line for line in lines if width(line) > COLUMNS and not TYPED.match(line)] == []


@pytest.mark.parametrize("machine", MACHINES[::7], ids=lambda machine: machine.name)
def test_a_healthy_machine(machine: Machine, language: str) -> None:
    text = report_text(judge(LOADED, machine))
    expect_a_screen(text)
    assert len(text.splitlines()) <= 12
    assert text.splitlines()[-1].startswith({"en": "READY", "zh": "就绪"}[language])


@pytest.mark.parametrize("seed", SEEDS)
def test_three_problems(seed: int, language: str) -> None:
    expect_a_screen(report_text(three(seed)))
