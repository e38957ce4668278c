"""A whole fix: look, plan, ask, write down, do, ask the check again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Callable, Optional

from npudoctor.fixing.apply import apply_step
from npudoctor.fixing.journal import Journal, NoJournal
from npudoctor.fixing.outcome import Ending, Observer, Outcome
from npudoctor.fixing.plan import Done, Item, Wish, items_of, left, unanswered
from npudoctor.fixing.steps import encode
from npudoctor.frozen import dataclass
from npudoctor.host import Host
from npudoctor.messages import _
from npudoctor.model import Report

Confirm = Callable[[Item], Optional[bool]]
"""Asks a person about one item: True, False, or None when there is nobody to ask."""


@dataclass(frozen=True)
class Tools:
    """What a fix works with: `look` asks the selected checks on a fresh host, `host` makes one."""

    look: Callable[[], Report]
    host: Callable[[], Host]
    confirm: Confirm
    at: Observer = lambda name: None


@dataclass(frozen=True)
class FixReport:
    """The answer of `fix`; `run` is null when nothing was written down."""

    exit_code: int
    changed: bool
    would_change: bool
    failed: bool
    msg: str
    run: Optional[str]
    actions: tuple[Done, ...]


def fix(wish: Wish, tools: Tools, show: Callable[[Sequence[Item]], None]) -> FixReport:
    """Carry out a wish. `show` is told the whole plan before anything is asked or done."""
    report = tools.look()
    items = items_of(report, tools.host(), wish)
    show(items)
    if wish.only_shows:
        done = [Done(item, _planned(item)) for item in items]
        return _answer(done, report, None, changed=False)
    return _carry_out(items, report, wish, tools)


def _planned(item: Item) -> Outcome:
    return Outcome(Ending.REFUSED, item.refusal) if item.refusal else Outcome(Ending.PLANNED)


def _carry_out(items: Sequence[Item], report: Report, wish: Wish, tools: Tools) -> FixReport:
    decided = [Done(item, _decide(item, wish, tools.confirm)) for item in items]
    if not any(one.outcome.ending is Ending.PLANNED for one in decided):
        return _answer(decided, report, None, changed=False)
    host = tools.host()
    try:
        with Journal(host.records.directory, host.system.boot_id(), tools.at) as journal:
            try:
                return _with_journal(decided, wish, tools, journal)
            except BaseException as error:  # Ctrl-C too: what was begun is on disk, and that it was stopped
                with suppress(NoJournal):
                    journal.write("interrupted", reason=type(error).__name__)
                raise
    except NoJournal as reason:
        refused = [
            replace(one, outcome=Outcome(Ending.FAILED, str(reason)))
            if one.outcome.ending is Ending.PLANNED
            else one
            for one in decided
        ]
        return _answer(refused, report, None, changed=False)


def _with_journal(decided: Sequence[Done], wish: Wish, tools: Tools, journal: Journal) -> FixReport:
    applied = [_apply(one, tools, journal) for one in decided]
    after = tools.look()
    settled = _judge_again(applied, after, tools.host(), wish)
    changed = any(one.outcome.changed for one in applied)
    answer = _answer(settled, after, journal.run, changed=changed)
    with suppress(NoJournal):  # a disk that is full by now alters nothing about what was done
        journal.write("end", exit_code=answer.exit_code, msg=answer.msg)
    return answer


def _decide(item: Item, wish: Wish, confirm: Confirm) -> Outcome:
    if item.refusal:
        return Outcome(Ending.REFUSED, item.refusal)
    if wish.yes:
        return Outcome(Ending.PLANNED)
    answer = confirm(item)
    if answer is None:
        return Outcome(Ending.REFUSED, _("there is no terminal to ask at, and no --yes"))
    return Outcome(Ending.PLANNED) if answer else Outcome(Ending.DECLINED, _("declined"))


def _apply(one: Done, tools: Tools, journal: Journal) -> Done:
    """Take the steps of one item, each written down first; a step that does not end well ends the item.

    What cannot be written down is not done. That an act cannot be told of afterwards undoes nothing.
    """
    if one.outcome.ending is not Ending.PLANNED or one.item.finding.fix is None:
        return one
    finding = one.item.finding
    outcome = Outcome(Ending.ALREADY)
    for step in one.item.finding.fix.steps:
        told = {"check": one.item.check, "code": finding.code, "evidence": finding.evidence}
        try:
            journal.write("before", **told, step=encode(step))
        except NoJournal as reason:
            return replace(one, outcome=Outcome(Ending.FAILED, str(reason), outcome.changed))
        ended = apply_step(step, tools.host(), tools.at)
        ended = replace(ended, changed=ended.changed or outcome.changed)
        with suppress(NoJournal):
            journal.write("after", code=finding.code, status=ended.ending.value, reason=ended.reason)
        if ended.ending in (Ending.REFUSED, Ending.FAILED):
            return replace(one, outcome=ended)
        outcome = ended if outcome.ending is not Ending.APPLIED else outcome
    return replace(one, outcome=outcome)


def _judge_again(applied: Sequence[Done], after: Report, host: Host, wish: Wish) -> list[Done]:
    """Fixed is what the check no longer finds; what it finds anew is an item too."""
    remaining = items_of(after, host, wish)
    settled = []
    for one in applied:
        still = [item for item in remaining if item.same_as(one.item)]
        remaining = [item for item in remaining if item not in still]
        if still and one.outcome.ending in (Ending.APPLIED, Ending.ALREADY):
            one = replace(one, outcome=Outcome(Ending.FAILED, _("the check still finds it")))
        settled.append(one)
    return settled + [Done(item, _new(item)) for item in remaining]


def _new(item: Item) -> Outcome:
    return Outcome(Ending.REFUSED, item.refusal or _("it appeared while the others were mended"))


def _answer(done: Sequence[Done], report: Report, run: Optional[str], *, changed: bool) -> FixReport:
    unproven = any(one.item.unproven for one in done) or unanswered(report)
    status = 1 if left(done) else 2 if unproven else 0
    bad = (Ending.REFUSED, Ending.FAILED)
    return FixReport(
        exit_code=status,
        changed=changed,
        would_change=any(one.outcome.ending is Ending.PLANNED for one in done),
        failed=unproven or any(one.outcome.ending in bad for one in done),
        msg=_line(done, status),
        run=run,
        actions=tuple(done),
    )


def _line(done: Sequence[Done], status: int) -> str:
    if not done:
        return _("nothing to do") if status == 0 else _("nothing to do, but not all could be looked at")
    parts = []
    for ending in Ending:
        number = sum(one.outcome.ending is ending for one in done)
        if number:
            parts.append(_counted(ending).format(count=number))
    return _(", ").join(parts)


def _counted(ending: Ending) -> str:
    texts = {
        Ending.PLANNED: _("{count} planned"),
        Ending.APPLIED: _("{count} applied"),
        Ending.ALREADY: _("{count} gone already"),
        Ending.DECLINED: _("{count} declined"),
        Ending.REFUSED: _("{count} refused"),
        Ending.FAILED: _("{count} failed"),
    }
    return texts[ending]
