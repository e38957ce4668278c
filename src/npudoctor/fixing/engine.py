"""A whole fix: look, plan, ask, write down, do, ask the check again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Callable, Optional, Protocol

from npudoctor.core.frozen import dataclass, replace
from npudoctor.core.messages import _
from npudoctor.core.model import Report, Step
from npudoctor.facts.leftovers.temporary import library_of
from npudoctor.fixing.actions.apply import apply_step
from npudoctor.fixing.journal import Journal, NoJournal
from npudoctor.fixing.outcome import ActionStatus, Observer, Outcome
from npudoctor.fixing.plan import UNANSWERED, FixRequest, Item, ItemResult, items_of, unanswered_checks
from npudoctor.fixing.report import FixReport as FixReport
from npudoctor.fixing.report import fix_report
from npudoctor.fixing.steps.steps import RUN, RemoveFiles, encode
from npudoctor.host import Host

REASONS = 3  # checks without an answer that the one line names
MOMENT = 2.0  # seconds for which a look is new enough where hundreds of steps share it

Confirm = Callable[[Item], Optional[bool]]
"""Asks a person about one item: True, False, or None when there is nobody to ask."""


class ApplyContext(Protocol):
    """What acting needs: `host` makes a fresh look, `at` is told of every change."""

    @property
    def host(self) -> Callable[[], Host]: ...
    @property
    def confirm(self) -> Confirm: ...
    @property
    def at(self) -> Observer: ...


@dataclass(frozen=True)
class FixContext:
    """What a fix works with: `look` asks the selected checks on a fresh host, `host` makes one."""

    look: Callable[[], Report]
    host: Callable[[], Host]
    confirm: Confirm
    at: Observer = lambda name: None


def fix(wish: FixRequest, tools: FixContext, show: Callable[[Sequence[Item]], None]) -> FixReport:
    """Carry out a wish. `show` is told the whole plan before anything is asked or done."""
    report = tools.look()
    items = items_of(report, tools.host(), wish)
    show(items)
    if wish.only_shows:
        done = [ItemResult(item, preview(item)) for item in items]
        return _answer(done, report, None, changed=False)
    return _carry_out(items, report, wish, tools)


def preview(item: Item) -> Outcome:
    """What is said of an item where the plan is only shown."""
    return Outcome(ActionStatus.REFUSED, item.refusal) if item.refusal else Outcome(ActionStatus.PLANNED)


def _carry_out(items: Sequence[Item], report: Report, wish: FixRequest, tools: FixContext) -> FixReport:
    decided = [ItemResult(item, decide(item, wish, tools.confirm)) for item in items]
    return apply_with_journal(
        decided,
        tools,
        lambda journal: _with_journal(decided, wish, tools, journal),
        lambda done: _answer(done, report, None, changed=False),
    )


def apply_with_journal(
    decided: Sequence[ItemResult],
    tools: ApplyContext,
    work: Callable[[Journal], FixReport],
    idle: Callable[[Sequence[ItemResult]], FixReport],
) -> FixReport:
    """Have the work done with a journal open; `idle` answers where nothing is to be done, or may be."""
    if not any(result.outcome.ending is ActionStatus.PLANNED for result in decided):
        return idle(decided)
    host = tools.host()
    try:
        with Journal(host.records.directory, host.system.boot_id(), tools.at) as journal:
            try:
                return work(journal)
            except BaseException as error:  # Ctrl-C too: what was begun is on disk, and that it was stopped
                with suppress(NoJournal):
                    journal.write("interrupted", reason=type(error).__name__)
                raise
    except NoJournal as reason:
        failed = Outcome(ActionStatus.FAILED, str(reason))
        planned = ActionStatus.PLANNED
        return idle(
            [
                replace(result, outcome=failed) if result.outcome.ending is planned else result
                for result in decided
            ]
        )


def _with_journal(
    decided: Sequence[ItemResult], wish: FixRequest, tools: FixContext, journal: Journal
) -> FixReport:
    applied: list[ItemResult] = []
    for number, result in enumerate(decided):
        stale = not wish.yes or any(earlier.outcome.changed for earlier in applied)
        if stale and result.outcome.ending is ActionStatus.PLANNED:
            result = _recheck(result, tools, wish)
        applied.append(apply_item(result, number, tools, journal))
    after = tools.look()
    settled = _judge_again(applied, after, tools.host(), wish)
    changed = any(result.outcome.changed for result in applied)
    answer = _answer(settled, after, journal.run, changed=changed)
    with suppress(NoJournal):  # a disk that is full by now alters nothing about what was done
        journal.write("end", exit_code=answer.exit_code, msg=answer.msg)
    return answer


def decide(item: Item, wish: FixRequest, confirm: Confirm) -> Outcome:
    """What is to become of an item: planned, refused, or declined by whom we asked."""
    if item.refusal:
        return Outcome(ActionStatus.REFUSED, item.refusal)
    if wish.yes:
        return Outcome(ActionStatus.PLANNED)
    answer = confirm(item)
    if answer is None:
        return Outcome(ActionStatus.REFUSED, _("there is no terminal to ask on, and --yes was not given"))
    return Outcome(ActionStatus.PLANNED) if answer else Outcome(ActionStatus.DECLINED, _("declined"))


def _recheck(result: ItemResult, tools: FixContext, wish: FixRequest) -> ItemResult:
    """A program knows of no guard but this: while a person was asked, or other items were mended, it may
    have become superfluous, and whoever takes it back then would take back another's."""
    fix = result.item.finding.fix
    if fix is None or not any(isinstance(step, RUN) for step in fix.steps):
        return result
    report = tools.look()
    if result.item.identity in {item.identity for item in items_of(report, tools.host(), wish)}:
        return result
    silent = [row for row in report.results if row.check == result.item.check and row.status in UNANSWERED]
    outcome = Outcome(ActionStatus.ALREADY, _("the check no longer finds it"))
    if silent:
        text = _("the check no longer gives a result: {reason}")
        outcome = Outcome(ActionStatus.REFUSED, text.format(reason=silent[0].reason))
    return replace(result, outcome=outcome)


class _Looks:
    """A fresh look at the machine for each step. Only temporary folders, of which there may be hundreds,
    share one for a moment: a process that began since made none of them, and what is in them is looked at
    anew for each."""

    def __init__(self, tools: ApplyContext) -> None:
        self._tools = tools
        self._host: Optional[Host] = None
        self._until = 0.0

    def host_for(self, step: Step) -> Host:
        shares = isinstance(step, RemoveFiles) and library_of(step.directory.rpartition("/")[2])
        if self._host is None or not shares or time.monotonic() > self._until:
            self._host, self._until = self._tools.host(), time.monotonic() + MOMENT
        return self._host


def apply_item(result: ItemResult, number: int, tools: ApplyContext, journal: Journal) -> ItemResult:
    """Take the steps of one item, each written down first; a step that does not end well ends the item.

    What cannot be written down is not done. That an act cannot be told of afterwards undoes nothing.
    """
    if result.outcome.ending is not ActionStatus.PLANNED or result.item.finding.fix is None:
        return result
    finding = result.item.finding
    outcome = Outcome(ActionStatus.ALREADY)
    looks = _Looks(tools)
    for step in result.item.finding.fix.steps:
        record = {
            "item": number,
            "check": result.item.check,
            "code": finding.code,
            "evidence": finding.evidence,
        }
        try:
            journal.write("before", **record, step=encode(step))
        except NoJournal as reason:
            return replace(result, outcome=Outcome(ActionStatus.FAILED, str(reason), outcome.changed))
        ended = apply_step(step, looks.host_for(step), tools.at)
        with suppress(NoJournal):
            record = {"status": ended.ending.value, "reason": ended.reason, "changed": ended.changed}
            journal.write("after", code=finding.code, **record)
        ended = replace(ended, changed=ended.changed or outcome.changed)
        if ended.ending in (ActionStatus.REFUSED, ActionStatus.FAILED):
            return replace(result, outcome=ended)
        outcome = ended if outcome.ending is not ActionStatus.APPLIED else outcome
    return replace(result, outcome=outcome)


def _judge_again(
    applied: Sequence[ItemResult], after: Report, host: Host, wish: FixRequest
) -> list[ItemResult]:
    """Fixed is what the check no longer finds; what it finds anew is an item too."""
    remaining = items_of(after, host, wish)
    settled = []
    for result in applied:
        still = [item for item in remaining if item.same_as(result.item)]
        remaining = [item for item in remaining if item not in still]
        if still and result.outcome.ending in (ActionStatus.APPLIED, ActionStatus.ALREADY):
            why = _("the check still finds it")
            if result.outcome.reason:
                why = _("{reason}, and the check still finds it").format(reason=result.outcome.reason)
            result = replace(result, outcome=Outcome(ActionStatus.FAILED, why, result.outcome.changed))
        settled.append(result)
    return settled + [ItemResult(item, _appeared(item)) for item in remaining]


def _appeared(item: Item) -> Outcome:
    return Outcome(ActionStatus.REFUSED, item.refusal or _("it appeared while the others were being fixed"))


def _answer(results: Sequence[ItemResult], report: Report, run: Optional[str], *, changed: bool) -> FixReport:
    silent = unanswered_checks(report)
    unproven = bool(silent) or any(result.item.unproven for result in results)
    msg = ""
    if silent and not results:
        text = _("found nothing to fix, but could not check everything: {reasons}")
        msg = text.format(reasons="; ".join(silent[:REASONS] + (["..."] if silent[REASONS:] else [])))
    return fix_report(results, run, changed=changed, unproven=unproven, msg=msg)
