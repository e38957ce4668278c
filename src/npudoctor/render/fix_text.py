"""The plan and the answer of `fix` for people: every line that runs is shown as it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npudoctor.fixing.engine import FixReport
from npudoctor.fixing.outcome import Ending
from npudoctor.fixing.plan import Done, Item
from npudoctor.messages import _
from npudoctor.render.columns import paragraph
from npudoctor.render.printable import printable

INDENT, DEEPER = "  ", "      "


def ending_words() -> dict[Ending, str]:
    """How each ending of an action is called."""
    return {
        Ending.PLANNED: _("planned"),
        Ending.APPLIED: _("applied"),
        Ending.ALREADY: _("gone already"),
        Ending.DECLINED: _("declined"),
        Ending.REFUSED: _("refused"),
        Ending.FAILED: _("failed"),
    }


def plan_text(items: Sequence[Item]) -> str:
    """What is about to be asked or done."""
    lines = [_("the plan:")] if items else []
    for item in items:
        word = _("refused") if item.refusal else _("planned")
        lines += _shown(item, word, item.refusal or "")
    return "".join(line + "\n" for line in lines)


def fix_text(report: FixReport) -> str:
    """What became of every item, and the one line."""
    words = ending_words()
    lines = [line for done in report.actions for line in _done(done, words)]
    if report.run is not None:
        lines.append(_("journal of this run: {run}").format(run=report.run))
    lines.append(printable(report.msg))
    return "\n".join(lines) + "\n"


def _done(done: Done, words: dict[Ending, str]) -> Iterator[str]:
    yield from _shown(done.item, words[done.outcome.ending], done.outcome.reason)


def _shown(item: Item, word: str, reason: str) -> Iterator[str]:
    yield f"{INDENT}{word}: {printable(item.finding.code)}"
    yield from paragraph(item.finding.message, DEEPER, DEEPER)
    if reason:
        yield from paragraph(_("why: {reason}").format(reason=reason), DEEPER, DEEPER)
    for command in item.commands:
        yield f"{DEEPER}$ {printable(command)}"
