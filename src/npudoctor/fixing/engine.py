"""A whole fix: look, plan, ask, write down, do, ask the check again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Callable, Optional, Protocol

from npudoctor.core.frozen import dataclass, replace
from npudoctor.core.messages import _
from npudoctor.core.model import UNANSWERED, Report, Step
from npudoctor.facts.leftovers.temporary import library_of
from npudoctor.fixing.journal import Journal, NoJournal
from npudoctor.fixing.outcome import ActionStatus, Observer, Outcome
from npudoctor.fixing.plan import FixRequest, Item, ItemResult, items_of, unanswered_checks
from npudoctor.fixing.report import UNPROVEN, fix_report
from npudoctor.fixing.report import FixReport as FixReport
from npudoctor.fixing.steps.steps import RUN, RemoveFiles, encode
from npudoctor.host import Host

REASONS = 3  # checks without an answer that the one line names
MOMENT = 2.0  # seconds for which a look is new enough where hundreds of steps share it

Confirm = Callable[[Item], Optional[bool]]
"""Asks a person about one item: True, False, or None without a terminal."""


class ApplyContext(Protocol):
    """What acting needs: `host` returns the machine freshly read, `at` observes every change."""

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


def fix(request: FixRequest, context: FixContext, show: Callable[[Sequence[Item]], None]) -> FixReport:
    """Carry out a request. `show` gets the whole plan before anything is asked or done."""
    report = context.look()
    items = items_of(report, context.host(), request)
    show(items)
    if request.only_shows:
        done = [ItemResult(item, preview(item)) for item in items]
        return _answer(done, report, None, changed=False)
    decided = [ItemResult(item, decide(item, request, context.confirm)) for item in items]
    return apply_with_journal(
        decided,
        context,
        lambda journal: _apply(decided, request, context, journal),
        lambda results: _answer(results, report, None, changed=False),
    )


def preview(item: Item) -> Outcome:
    """The outcome of an item when the plan is only shown."""
    return Outcome(ActionStatus.REFUSED, item.refusal) if item.refusal else Outcome(ActionStatus.PLANNED)


def apply_with_journal(
    decided: Sequence[ItemResult],
    context: ApplyContext,
    work: Callable[[Journal], FixReport],
    idle: Callable[[Sequence[ItemResult]], FixReport],
) -> FixReport:
    """Do the work with a journal open; `idle` answers where nothing is to be done, or may be done."""
    if not any(result.planned for result in decided):
        return idle(decided)
    host = context.host()
    try:
        with Journal(host.records.directory, host.system.boot_id(), context.at) as journal:
            try:
                answer = work(journal)
                with suppress(NoJournal):  # a disk that is full by now alters nothing about what was done
                    journal.write("end", exit_code=answer.exit_code, msg=answer.msg)
                return answer
            except BaseException as error:  # Ctrl-C too: what was begun is on disk, and that it was stopped
                with suppress(NoJournal):
                    journal.write("interrupted", reason=type(error).__name__)
                raise
    except NoJournal as reason:
        failed = Outcome(ActionStatus.FAILED, str(reason))
        return idle([replace(result, outcome=failed) if result.planned else result for result in decided])


def _apply(
    decided: Sequence[ItemResult], request: FixRequest, context: FixContext, journal: Journal
) -> FixReport:
    applied: list[ItemResult] = []
    for number, result in enumerate(decided):
        stale = not request.yes or any(earlier.outcome.changed for earlier in applied)
        if stale and result.planned:
            result = _recheck(result, context, request)
        applied.append(apply_item(result, number, context, journal))
    after = context.look()
    settled = _judge_again(applied, after, context.host(), request)
    changed = any(result.outcome.changed for result in applied)
    return _answer(settled, after, journal.run, changed=changed)


def decide(item: Item, request: FixRequest, confirm: Confirm) -> Outcome:
    """What to do with an item: planned, refused, or declined by the person at the terminal."""
    if item.refusal:
        return Outcome(ActionStatus.REFUSED, item.refusal)
    if request.yes:
        return Outcome(ActionStatus.PLANNED)
    answer = confirm(item)
    if answer is None:
        return Outcome(ActionStatus.REFUSED, _("there is no terminal to ask on, and --yes was not given"))
    return Outcome(ActionStatus.PLANNED) if answer else Outcome(ActionStatus.DECLINED, _("declined"))


def _recheck(result: ItemResult, context: FixContext, request: FixRequest) -> ItemResult:
    """A program has no other guard: while a person was asked, or other items were fixed, it may have become
    superfluous, and undoing it later would undo somebody else's change."""
    fix = result.item.finding.fix
    if fix is None or not any(isinstance(step, RUN) for step in fix.steps):
        return result
    report = context.look()
    if result.item.identity in {item.identity for item in items_of(report, context.host(), request)}:
        return result
    silent = [row for row in report.results if row.check == result.item.check and row.status in UNANSWERED]
    outcome = Outcome(ActionStatus.ALREADY, _("the check no longer finds it"))
    if silent:
        outcome = Outcome(
            ActionStatus.REFUSED, _("the check no longer gives a result: {reason}", reason=silent[0].reason)
        )
    return replace(result, outcome=outcome)


class _Looks:
    """A fresh look at the machine for each step. Only temporary folders, of which there may be hundreds,
    share one for a moment: a process that began since made none of them, and each folder is looked at
    again before it is removed."""

    def __init__(self, context: ApplyContext) -> None:
        self._context = context
        self._host: Optional[Host] = None
        self._until = 0.0

    def host_for(self, step: Step) -> Host:
        shares = isinstance(step, RemoveFiles) and library_of(step.directory.rpartition("/")[2])
        if self._host is None or not shares or time.monotonic() > self._until:
            self._host, self._until = self._context.host(), time.monotonic() + MOMENT
        return self._host


def apply_item(result: ItemResult, number: int, context: ApplyContext, journal: Journal) -> ItemResult:
    """Take the steps of one item, each written down first; a step that does not end well ends the item.

    What cannot be recorded is not done; a step that was done counts even if its end cannot be recorded.
    """
    if not result.planned or result.item.finding.fix is None:
        return result
    from npudoctor.fixing.actions.apply import apply_step  # a plan loads nothing that changes a machine

    finding = result.item.finding
    outcome = Outcome(ActionStatus.ALREADY)
    looks = _Looks(context)
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
        ended = apply_step(step, looks.host_for(step), context.at)
        with suppress(NoJournal):
            record = {"status": ended.status.value, "reason": ended.reason, "changed": ended.changed}
            journal.write("after", code=finding.code, **record)
        ended = replace(ended, changed=ended.changed or outcome.changed)
        if ended.status in (ActionStatus.REFUSED, ActionStatus.FAILED):
            return replace(result, outcome=ended)
        outcome = ended if outcome.status is not ActionStatus.APPLIED else outcome
    return replace(result, outcome=outcome)


def _judge_again(
    applied: Sequence[ItemResult], after: Report, host: Host, request: FixRequest
) -> list[ItemResult]:
    """Fixed is what the check no longer finds; anything new that it finds is an item too."""
    remaining = items_of(after, host, request)
    settled = []
    for result in applied:
        still = [item for item in remaining if item.same_as(result.item)]
        remaining = [item for item in remaining if item not in still]
        if still and result.outcome.status in (ActionStatus.APPLIED, ActionStatus.ALREADY):
            why = _("the check still finds it")
            if result.outcome.reason:
                why = _("{reason}, and the check still finds it", reason=result.outcome.reason)
            result = replace(result, outcome=Outcome(ActionStatus.FAILED, why, result.outcome.changed))
        settled.append(result)
    return settled + [ItemResult(item, _appeared(item)) for item in remaining]


def _appeared(item: Item) -> Outcome:
    return Outcome(ActionStatus.REFUSED, item.refusal or _("it appeared while the others were being fixed"))


def _answer(results: Sequence[ItemResult], report: Report, run: Optional[str], *, changed: bool) -> FixReport:
    silent = unanswered_checks(report)
    unproven = bool(silent) or any(result.item.unproven for result in results)
    answer = fix_report(results, run, changed=changed, unproven=unproven)
    if not silent or (results and answer.exit_code != UNPROVEN):
        return answer
    reasons = _("; ").join(silent[:REASONS] + (["..."] if silent[REASONS:] else []))
    text = _("found nothing to fix, but could not check everything: {reasons}")
    if results:
        text = _("{result}; could not check everything: {reasons}")
    return replace(answer, msg=text.format(result=answer.msg, reasons=reasons))
