"""A whole fix: look, plan, ask, write down, do, ask the check again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

from npudoctor.core.messages import _
from npudoctor.fixing.outcome import ActionStatus, Outcome
from npudoctor.fixing.plan import Confirm, FixRequest, Item, ItemResult, items_of
from npudoctor.fixing.plan import FixContext as FixContext
from npudoctor.fixing.report import FixReport as FixReport
from npudoctor.fixing.report import answer_of


def fix(request: FixRequest, context: FixContext, show: Callable[[Sequence[Item]], None]) -> FixReport:
    """Carry out a request. `show` receives the whole plan before anything is asked or done."""
    report = context.look()
    items = items_of(report, context.host(), request)
    show(items)
    if request.only_shows:
        decided = [ItemResult(item, preview(item)) for item in items]
    else:
        decided = [ItemResult(item, decide(item, request, context.confirm)) for item in items]
    if request.only_shows or not any(result.planned for result in decided):
        return answer_of(decided, report, None, changed=False)
    # Where nothing is to be done nothing is loaded that changes a machine.
    from npudoctor.fixing.carry_out import apply_with_journal, fix_items

    return apply_with_journal(
        decided,
        context,
        lambda journal: fix_items(decided, request, context, journal),
        lambda results: answer_of(results, report, None, changed=False),
    )


def preview(item: Item) -> Outcome:
    """The outcome of an item when the plan is only shown."""
    return Outcome(ActionStatus.REFUSED, item.refusal) if item.refusal else Outcome(ActionStatus.PLANNED)


def decide(item: Item, request: FixRequest, confirm: Confirm) -> Outcome:
    """The outcome that an item starts with: planned, refused, or declined by the person at the terminal."""
    if item.refusal:
        return Outcome(ActionStatus.REFUSED, item.refusal)
    if request.yes:
        return Outcome(ActionStatus.PLANNED)
    # None: there is no terminal, and silence is no consent.
    answer = confirm(item)
    if answer is None:
        return Outcome(
            ActionStatus.REFUSED, _("no terminal to ask for confirmation, and --yes was not given")
        )
    return Outcome(ActionStatus.PLANNED) if answer else Outcome(ActionStatus.DECLINED, _("declined"))
