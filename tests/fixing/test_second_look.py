"""Programs have no guard of their own: the check must still find what they are to mend."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import pytest
from tests.support.machine import Machine

from npudoctor.core.model import Finding, Fix, Report, Result, Risk, Severity, Status, Step, Verdict
from npudoctor.fixing.engine import FixContext, FixReport, fix
from npudoctor.fixing.plan import FixRequest
from npudoctor.fixing.steps.steps import Command, Export
from npudoctor.render.fix import fix_object, fix_text
from npudoctor.runner.description import minimal_host, minimal_target

WISH = FixRequest(("x",), yes=True, risk=Risk.CAUTION)
GIVEN_UP = (Status.UNKNOWN, Status.TIMEOUT, Status.CRASHED)


class Looks:
    """A machine whose check answers differently each time; the last answer stays."""

    def __init__(self, machine: Machine, answers: Sequence[Sequence[Finding]]) -> None:
        self.machine, self.left, self.status = machine, list(answers), Status.PROBLEM

    def __call__(self) -> Report:
        found = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        host = self.machine.host()
        row = Result("x", "X", "host", Status.OK if not found else self.status, findings=tuple(found))
        described = minimal_host(host), minimal_target(host)
        return Report("0", "", 0.0, "full", "all", *described, Verdict.UNDETERMINED, 2, "", {}, (row,))


def ill(step: Step, code: str = "x.y") -> Finding:
    return Finding(code, "it is so", Severity.WARNING, fix=Fix("t", (step,), needs_root=False))


def mend(looks: Looks, request: FixRequest = WISH, answer: Optional[bool] = True) -> FixReport:
    context = FixContext(looks, looks.machine.host, lambda item: answer)
    return fix(request, context, lambda items: None)


def test_what_an_earlier_item_mended_is_not_mended_twice(machine: Machine, tmp_path: Path) -> None:
    """Two findings about one port have the same line."""
    step = Command(("sh", "-c", f"echo x >> {tmp_path}/log"))
    report = mend(Looks(machine, [[ill(step), ill(step, "x.z")], []]))
    assert [one.outcome.status.value for one in report.actions] == ["applied", "already"]
    assert (tmp_path / "log").read_text() == "x\n"
    assert (report.exit_code, report.changed) == (0, True)


def test_what_was_mended_while_a_person_was_asked(machine: Machine, tmp_path: Path) -> None:
    step = Command(("touch", f"{tmp_path}/made"))
    report = mend(Looks(machine, [[ill(step)], []]), FixRequest(("x",)))
    assert [one.outcome.status.value for one in report.actions] == ["already"]
    assert "no longer finds it" in report.actions[0].outcome.reason
    assert (report.changed, (tmp_path / "made").exists()) == (False, False)


@pytest.mark.parametrize("status", GIVEN_UP)
def test_a_check_that_gives_no_answer_any_more(machine: Machine, tmp_path: Path, status: Status) -> None:
    step = Command(("touch", f"{tmp_path}/made"))
    looks = Looks(machine, [[ill(step)]])
    first = looks()
    silent = Result("x", "X", "host", status, reason="it hangs")
    answers = iter([first])

    def look() -> Report:
        import dataclasses

        return next(answers, dataclasses.replace(first, results=(silent,)))

    context = FixContext(look, machine.host, lambda item: True)
    report = fix(FixRequest(("x",)), context, lambda items: None)
    assert [one.outcome.status.value for one in report.actions] == ["refused"]
    assert "it hangs" in report.actions[0].outcome.reason
    assert (report.changed, (tmp_path / "made").exists()) == (False, False)


def test_a_program_that_is_not_needed_and_a_check_that_says_otherwise(machine: Machine) -> None:
    step = Command(("true",), unless=("true",))
    report = mend(Looks(machine, [[ill(step)]]))
    (one,) = report.actions
    assert (one.outcome.status.value, report.changed, report.exit_code) == ("failed", False, 1)
    assert one.outcome.reason == "already done, and the check still finds it"


ENV = 'eval "$(npudoctor env)"'


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (Export("A", "b"), "export A=b"),
        (Command(("unset", "A")), "unset A"),
        (Command(("source", "/x/set_env.sh")), "source /x/set_env.sh"),
        (Command(("ulimit", "-n", "65536")), "ulimit -n 65536"),
        (Command(("newgrp", "HwHiAiUser")), "newgrp HwHiAiUser"),
    ],
)
@pytest.mark.parametrize("risk", Risk)
def test_what_only_the_callers_shell_can_do(machine: Machine, step: Step, line: str, risk: Risk) -> None:
    finding = Finding("x.y", "it is so", Severity.WARNING, fix=Fix("t", (step,), risk=risk, needs_root=False))
    report = mend(Looks(machine, [[finding]]))
    told = fix_object(report)
    (action,) = json.loads(json.dumps(told["actions"]))
    assert (action["status"], action["commands"]) == ("refused", [line])
    assert ENV not in action["reason"], "it would print nothing about this finding"
    assert "no program can change the shell that called it" in action["reason"]
    assert (report.exit_code, report.changed, report.failed) == (1, False, True)
    text = fix_text(report)
    assert "by hand x.y" in text and "refused" not in text
    assert f"$ {line}" in text
