"""Renders the plan and the result of `fix`: as text with every line exactly as it runs, and as
npudoctor.fix/1 (keys are added, never changed)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npudoctor import __version__
from npudoctor.core.messages import _
from npudoctor.core.redact.redact import redact, redact_lines, redact_value
from npudoctor.fixing.outcome import ActionStatus
from npudoctor.fixing.plan import Item, ItemResult
from npudoctor.fixing.report import FixReport, by_hand
from npudoctor.render.columns import paragraph, room, width
from npudoctor.render.printable import printable
from npudoctor.render.style import PLAIN, Style

SCHEMA = "npudoctor.fix/1"
INDENT, DEEPER = "  ", "      "


def status_words() -> dict[ActionStatus, str]:
    """The word for each status of an action."""
    return {
        ActionStatus.PLANNED: _("planned"),
        ActionStatus.APPLIED: _("applied"),
        ActionStatus.ALREADY: _("already done"),
        ActionStatus.DECLINED: _("declined"),
        ActionStatus.REFUSED: _("refused"),
        ActionStatus.FAILED: _("failed"),
    }


_KINDS = {
    ActionStatus.PLANNED: "info",
    ActionStatus.APPLIED: "ok",
    ActionStatus.ALREADY: "ok",
    ActionStatus.DECLINED: "warning",
    ActionStatus.REFUSED: "warning",
    ActionStatus.FAILED: "error",
}
_DONE = frozenset((ActionStatus.APPLIED, ActionStatus.ALREADY, ActionStatus.DECLINED))


def plan_text(items: Sequence[Item], style: Style = PLAIN) -> str:
    """The plan as text: what will be asked or done, and whether it can be undone; "" when there is none.

    Refused items are left out: the result shows them once, with the reason.
    """
    planned = [item for item in items if not item.refusal]
    lines = [_("the undo plan:") if items[0].takes_back else _("the plan:")] if planned else []
    for item in planned:
        word = _("planned")
        lines += _head_lines(style.paint_kind("info", word), word, _finding_text(item))
        lines += item_lines(item)
    return "".join(line + "\n" for line in lines)


def item_lines(item: Item) -> Iterator[str]:
    """Yield the lines that run and those that undo them, or that it cannot be undone."""
    yield from _command_lines(item.commands)
    fix = item.finding.fix
    if fix is None or item.takes_back:
        return
    back = fix.undo_commands
    if fix.undoable:
        yield f"{DEEPER}{_('to undo it:')}"
    elif back and fix.undo:
        yield f"{DEEPER}{_('npudoctor cannot undo it; undo it by hand:')}"
    elif back:
        yield f"{DEEPER}{_('only part of it can be undone:')}"
    elif not item.refusal:
        yield f"{DEEPER}{_('this cannot be undone')}"
    yield from _command_lines(back)


def fix_text(report: FixReport, style: Style = PLAIN) -> str:
    """The result of every item as text; at the end the summary and the command to type next."""
    words = status_words()
    lines = [line for done in report.actions for line in _result_lines(done, words, style)]
    if report.run is not None:
        lines.append(_("journal of this run: {run}", run=report.run))
    msg = printable(redact(report.msg))
    kind = "ok"
    if report.exit_code:
        failed = any(done.outcome.status is ActionStatus.FAILED for done in report.actions)
        kind = "error" if failed else "warning"
    closing = [style.paint_kind(kind, msg, bold=True), *_next_lines(report)]
    if len(closing) > 1 and width(_("; ").join([msg, *closing[1:]])) <= room():
        closing = [_("; ").join(closing)]
    return "\n".join([*lines, closing[0], *(f"{INDENT}{line}" for line in closing[1:])]) + "\n"


def _next_lines(report: FixReport) -> list[str]:
    """The command to type next: the planned fixes for real, or a check after changes.

    [] for the plan of an undo: its run is not known here.
    """
    planned = dict.fromkeys(
        done.item.check for done in report.actions if done.planned and not done.item.takes_back
    )
    if planned:
        arguments = ["--cache-server" if check == "cache-server" else check for check in planned]
        command = printable("npudoctor fix " + " ".join(arguments))
    elif report.changed:
        command = "npudoctor check"
    else:
        return []
    return [_("next: {command}", command=command)]


def _result_lines(done: ItemResult, words: dict[ActionStatus, str], style: Style) -> Iterator[str]:
    """The lines about one result. A fix that was applied or declined is shortened to its code, as the plan
    has shown its message already."""
    word = _("by hand") if by_hand(done) else words[done.outcome.status]
    painted = style.paint_kind(_KINDS[done.outcome.status], word)
    by_code = not (done.item.refusal or done.item.takes_back) and done.outcome.status in _DONE
    yield from _head_lines(painted, word, done.item.finding.code if by_code else _finding_text(done.item))
    if done.outcome.reason:
        yield from paragraph(_("why: {reason}", reason=redact(done.outcome.reason)), DEEPER, DEEPER)
    if done.item.refusal or done.planned:
        yield from item_lines(done.item)
    else:
        yield from _command_lines(done.item.commands)


def _head_lines(painted: str, word: str, text: str) -> Iterator[str]:
    """Yield the status and the finding; `painted`: the word in color."""
    first, *rest = paragraph(text, f"{INDENT}{word} ", DEEPER)
    yield first.replace(word, painted, 1)
    yield from rest


def _finding_text(item: Item) -> str:
    finding = item.finding
    return _("{code}: {message}", code=finding.code, message=finding.message)


def _command_lines(commands: Sequence[str]) -> Iterator[str]:
    return (f"{DEEPER}$ {printable(command)}" for command in redact_lines(commands))


def fix_object(report: FixReport) -> dict[str, object]:
    """The npudoctor.fix/1 document as plain data, with every key."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "exit_code": report.exit_code,
        "changed": report.changed,
        "would_change": report.would_change,
        "failed": report.failed,
        "msg": report.msg,
        "run": report.run,
        "actions": [_action_object(done) for done in report.actions],
    }


def _action_object(done: ItemResult) -> dict[str, object]:
    finding = done.item.finding
    shown = {
        "check": done.item.check,
        "code": finding.code,
        "title": finding.fix.title if finding.fix else finding.message,
        "message": finding.message,
        "status": done.outcome.status.value,
        "reason": done.outcome.reason or None,
        "commands": list(done.item.commands),
        "undo": list(finding.fix.undo_commands) if finding.fix else [],
        "undoable": finding.fix is not None and finding.fix.undoable,
    }
    return {key: redact_value(value) for key, value in shown.items()}
