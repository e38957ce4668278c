"""The half of a fix that changes a machine: writes down, does, asks the checks again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Callable, Optional, Protocol

from npudoctor.core.frozen import replace
from npudoctor.core.messages import _
from npudoctor.core.model import UNANSWERED, Report, Step
from npudoctor.facts.leftovers.temporary_folders import library_of
from npudoctor.fixing.actions.apply import apply_step
from npudoctor.fixing.journal import Journal, NoJournal
from npudoctor.fixing.outcome import ActionStatus, Observer, Outcome
from npudoctor.fixing.plan import Confirm, FixContext, FixRequest, ItemResult, items_of
from npudoctor.fixing.report import FixReport, answer_of
from npudoctor.fixing.steps.steps import RUN, RemoveFiles, encode
from npudoctor.host import Host

MOMENT = 2.0  # seconds for which a look is new enough where hundreds of steps share it


class ApplyContext(Protocol):
    """What applying needs: `host` returns the machine freshly read, `at` observes every change."""

    @property
    def host(self) -> Callable[[], Host]: ...
    @property
    def confirm(self) -> Confirm: ...
    @property
    def at(self) -> Observer: ...


def apply_with_journal(
    decided: Sequence[ItemResult],
    context: ApplyContext,
    work: Callable[[Journal], FixReport],
    idle: Callable[[Sequence[ItemResult]], FixReport],
) -> FixReport:
    """Do the work with a journal open. Where there can be none nothing may be done, and `idle` makes the
    report.
    """
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


def fix_items(
    decided: Sequence[ItemResult], request: FixRequest, context: FixContext, journal: Journal
) -> FixReport:
    """Apply what was decided, and ask the checks again."""
    applied: list[ItemResult] = []
    for number, result in enumerate(decided):
        # With --yes the first item follows the look at once.
        stale = not request.yes or any(earlier.outcome.changed for earlier in applied)
        if stale and result.planned:
            result = _recheck(result, context, request)
        applied.append(apply_item(result, number, context, journal))
    after = context.look()
    settled = _settle(applied, after, context.host(), request)
    changed = any(result.outcome.changed for result in applied)
    return answer_of(settled, after, journal.run, changed=changed)


def _recheck(result: ItemResult, context: FixContext, request: FixRequest) -> ItemResult:
    """Ask the check again before a program is run, which has no other guard.

    While a person was asked, or other items were fixed, it may have become superfluous; undoing it later
    would undo somebody else's change.
    """
    fix = result.item.finding.fix
    if fix is None or not any(isinstance(step, RUN) for step in fix.steps):
        return result
    report = context.look()
    if result.item.identity in {item.identity for item in items_of(report, context.host(), request)}:
        return result
    # A check without a result does not say that the finding is gone.
    silent = [row for row in report.results if row.check == result.item.check and row.status in UNANSWERED]
    outcome = Outcome(ActionStatus.ALREADY, _("the check no longer finds it"))
    if silent:
        outcome = Outcome(
            ActionStatus.REFUSED, _("the check no longer gives a result: {reason}", reason=silent[0].reason)
        )
    return replace(result, outcome=outcome)


class _HostPerStep:
    """A freshly read machine for each step.

    Only temporary folders, of which there may be hundreds, share one for a moment: a process that began since
    made none of them, and each folder is looked at again before it is removed.
    """

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
    """Take the steps of one item, each recorded first; a step that does not end well ends the item.

    What cannot be recorded is not done; a step that was done counts even if its end cannot be recorded.
    """
    if not result.planned or result.item.finding.fix is None:
        return result
    finding = result.item.finding
    outcome = Outcome(ActionStatus.ALREADY)
    looks = _HostPerStep(context)
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
        # What an earlier step of the item changed stays changed.
        ended = replace(ended, changed=ended.changed or outcome.changed)
        if ended.status in (ActionStatus.REFUSED, ActionStatus.FAILED):
            return replace(result, outcome=ended)
        # One step that was applied makes the item applied, also where others were done already.
        outcome = ended if outcome.status is not ActionStatus.APPLIED else outcome
    return replace(result, outcome=outcome)


def _settle(
    applied: Sequence[ItemResult], after: Report, host: Host, request: FixRequest
) -> list[ItemResult]:
    """Judge the results by the report afterwards: fixed is what the check no longer finds; anything new is an
    item too.
    """
    # By the same request: what was not selected is no item now either.
    remaining = items_of(after, host, request)
    settled = []
    for result in applied:
        # Of several processes or files in an item some may be left.
        still = [item for item in remaining if item.same_as(result.item)]
        remaining = [item for item in remaining if item not in still]
        if still and result.outcome.status in (ActionStatus.APPLIED, ActionStatus.ALREADY):
            why = _("the check still finds it")
            if result.outcome.reason:
                why = _("{reason}, and the check still finds it", reason=result.outcome.reason)
            result = replace(result, outcome=Outcome(ActionStatus.FAILED, why, result.outcome.changed))
        settled.append(result)
    appeared = _("it appeared while the others were being fixed")
    return settled + [
        ItemResult(item, Outcome(ActionStatus.REFUSED, item.refusal or appeared)) for item in remaining
    ]
