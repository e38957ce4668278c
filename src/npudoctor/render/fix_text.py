"""The plan and the answer of `fix` for people: every line that runs is shown as it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npudoctor.core.messages import _
from npudoctor.core.redact.redact import redact, redact_lines
from npudoctor.fixing.outcome import ActionStatus
from npudoctor.fixing.plan import Item, ItemResult
from npudoctor.fixing.report import FixReport, by_hand
from npudoctor.render.columns import paragraph
from npudoctor.render.printable import printable

INDENT, DEEPER = "  ", "      "


def ending_words() -> dict[ActionStatus, str]:
    """How each ending of an action is called."""
    return {
        ActionStatus.PLANNED: _("planned"),
        ActionStatus.APPLIED: _("applied"),
        ActionStatus.ALREADY: _("already done"),
        ActionStatus.DECLINED: _("declined"),
        ActionStatus.REFUSED: _("refused"),
        ActionStatus.FAILED: _("failed"),
    }


def plan_text(items: Sequence[Item]) -> str:
    """What is about to be asked or done, and what of it can be taken back."""
    lines = [_("to be undone:") if items[0].takes_back else _("the plan:")] if items else []
    for item in items:
        word = _("planned")
        if item.refusal:
            word = _("by hand") if item.by_hand else _("refused")
        lines += _head(item, word, item.refusal or "")
        lines += what_runs(item)
    return "".join(line + "\n" for line in lines)


def what_runs(item: Item) -> Iterator[str]:
    """The lines that run, and those that take them back; what cannot be taken back says so."""
    yield from _typed(item.commands)
    fix = item.finding.fix
    if fix is None or item.takes_back:
        return
    back = fix.undo_commands
    if fix.undoable:
        yield f"{DEEPER}{_('to undo it:')}"
    elif back and fix.undo:
        yield f"{DEEPER}{_('npudoctor cannot undo it; by hand:')}"
    elif back:
        yield f"{DEEPER}{_('only part of it can be undone:')}"
    elif not item.refusal:
        yield f"{DEEPER}{_('this cannot be undone')}"
    yield from _typed(back)


def fix_text(report: FixReport) -> str:
    """What became of every item, and the one line."""
    words = ending_words()
    lines = [line for done in report.actions for line in _done(done, words)]
    if report.run is not None:
        lines.append(_("journal of this run: {run}").format(run=report.run))
    lines.append(printable(redact(report.msg)))
    return "\n".join(lines) + "\n"


def _done(done: ItemResult, words: dict[ActionStatus, str]) -> Iterator[str]:
    """Of what is only planned all is told; else what can be undone was told with the plan."""
    word = _("by hand") if by_hand(done) else words[done.outcome.ending]
    yield from _head(done.item, word, done.outcome.reason)
    if done.outcome.ending is ActionStatus.PLANNED:
        yield from what_runs(done.item)
    else:
        yield from _typed(done.item.commands)


def _head(item: Item, word: str, reason: str) -> Iterator[str]:
    yield f"{INDENT}{word}: {printable(item.finding.code)}"
    yield from paragraph(item.finding.message, DEEPER, DEEPER)
    if reason:
        yield from paragraph(_("why: {reason}").format(reason=redact(reason)), DEEPER, DEEPER)


def _typed(commands: Sequence[str]) -> Iterator[str]:
    return (f"{DEEPER}$ {printable(command)}" for command in redact_lines(commands))
