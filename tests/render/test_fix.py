"""The plan and the answer of fix and undo: what runs, what takes it back, and what cannot be taken back."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from npudoctor.core.model import Finding, Fix
from npudoctor.fixing.outcome import ActionStatus, Outcome
from npudoctor.fixing.plan import Item, ItemResult
from npudoctor.fixing.report import fix_report
from npudoctor.fixing.steps.steps import Command, KnownStep, WriteFile
from npudoctor.render.fix import fix_object, fix_text, plan_text
from npudoctor.render.style import Style

ONE, TWO = Command(("one",), ("un", "one")), Command(("two",), ("un", "two"))
NEVER = Command(("never",))
FILE = WriteFile("/etc/a\x1b", "x\n")


def item(
    *steps: KnownStep, undo: tuple[str, ...] = (), refusal: Optional[str] = None, back: bool = False
) -> Item:
    return Item("x", Finding("x.y", "m", fix=Fix("t", steps, undo)), refusal, back)


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


@pytest.mark.parametrize(
    ("planned", "told", "undoable"),
    [
        (item(ONE, TWO), ["$ one", "$ two", "to undo it:", "$ un two", "$ un one"], True),
        (item(NEVER), ["$ never", "this cannot be undone"], False),
        (item(ONE, NEVER), ["$ one", "$ never", "only part of it can be undone:", "$ un one"], False),
        (
            item(NEVER, undo=("by hand",)),
            ["$ never", "npudoctor cannot undo it; undo it by hand:", "$ by hand"],
            False,
        ),
        (item(ONE, undo=("another",)), ["$ one", "to undo it:", "$ un one"], True),
        (item(NEVER, refusal="no"), ["$ never"], False),
        (item(ONE, refusal="no"), ["$ one", "to undo it:", "$ un one"], True),
        (item(ONE, back=True), ["$ one"], True),
        (
            item(FILE),
            [
                r"$ printf '%s\n' x > $'/etc/a\x1b'", r"$ chmod 644 $'/etc/a\x1b'", "to undo it:",
                r"$ rm -- $'/etc/a\x1b'",
            ],
            True,
        ),
    ],
)  # fmt: skip
def test_what_the_plan_says_of_undoing(planned: Item, told: list[str], undoable: bool) -> None:
    shown = lines(plan_text([planned]))
    if planned.refusal:
        assert shown == [], "what, why and how is said once, in the answer"
    else:
        assert shown[0] == ("the undo plan:" if planned.takes_back else "the plan:")
        assert shown[2:] == told
    report = fix_report([ItemResult(planned, Outcome(ActionStatus.PLANNED))], None, changed=False)
    assert lines(fix_text(report))[-len(told) - 1 : -1] == told
    actions: Any = fix_object(report)["actions"]
    assert [action["undoable"] for action in actions] == [undoable]


@pytest.mark.parametrize("ending", [one for one in ActionStatus if one is not ActionStatus.PLANNED])
def test_the_answer_says_what_ran_and_not_again_how_to_undo_it(ending: ActionStatus) -> None:
    report = fix_report([ItemResult(item(ONE), Outcome(ending, "because"))], "RUN", changed=True)
    told = lines(fix_text(report))
    undone = ending in (ActionStatus.REFUSED, ActionStatus.FAILED)
    assert told[0].endswith(" x.y: m" if undone else " x.y"), "the plan has told what is wrong"
    assert told[1:] == ["why: because", "$ one", "journal of this run: RUN", told[-1]]
    assert told[-1].endswith("; next: npudoctor check")


def test_what_was_only_shown_says_how_it_is_done() -> None:
    report = fix_report([ItemResult(item(ONE), Outcome(ActionStatus.PLANNED))], None, changed=False)
    assert lines(fix_text(report))[-1] == "1 planned; next: npudoctor fix x"
    back = fix_report([ItemResult(item(ONE, back=True), Outcome(ActionStatus.PLANNED))], None, changed=False)
    assert lines(fix_text(back))[-1] == "1 planned"


def test_on_a_terminal_the_words_are_coloured() -> None:
    report = fix_report([ItemResult(item(ONE), Outcome(ActionStatus.APPLIED))], "RUN", changed=True)
    text = fix_text(report, Style(True, True))
    assert "  \x1b[32mapplied\x1b[0m x.y\n" in text and "\x1b[1;32m1 applied\x1b[0m; next: " in text
    assert "\x1b[33mby hand\x1b[0m x.y" not in plan_text([item(ONE)], Style(True, True))


def test_what_is_by_hand_is_shown_once() -> None:
    by_hand = Item("x", Finding("x.hand", "m"), "npudoctor has no fix for it")
    items = [item(ONE), by_hand]
    results = [
        ItemResult(items[0], Outcome(ActionStatus.APPLIED)),
        ItemResult(by_hand, Outcome(ActionStatus.REFUSED, by_hand.refusal or "")),
    ]
    both = plan_text(items) + fix_text(fix_report(results, None, changed=True))
    assert (both.count("x.hand"), both.count("x.y")) == (1, 2)


def test_no_plan_is_no_text() -> None:
    assert plan_text([]) == ""
