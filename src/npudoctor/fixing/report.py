"""What a fix or an undo answers: what became of each item, the line, and the exit status that says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass, replace
from npudoctor.core.messages import _
from npudoctor.core.model import UNANSWERED, Report
from npudoctor.fixing.outcome import ActionStatus
from npudoctor.fixing.plan import ItemResult

REASONS = 3  # checks without an answer that the one line names
UNPROVEN = 2  # the exit status: nothing is left that could be dealt with, but not all could be judged


@dataclass(frozen=True)
class FixReport:
    """The answer of `fix`. `run`: the name of the journal; None when nothing was recorded."""

    exit_code: int
    changed: bool
    would_change: bool
    failed: bool
    msg: str
    run: Optional[str]
    actions: tuple[ItemResult, ...]


def fix_report(
    results: Sequence[ItemResult], run: Optional[str], *, changed: bool, unproven: bool = False, msg: str = ""
) -> FixReport:
    """The report on all items, with the exit status that follows from them."""
    over = (ActionStatus.APPLIED, ActionStatus.ALREADY)
    unfinished = [result.item for result in results if result.outcome.status not in over]
    is_unfinished = any(item.decides and not item.unproven for item in unfinished)
    texts = {
        ActionStatus.PLANNED: _("{count} planned"),
        ActionStatus.APPLIED: _("{count} applied"),
        ActionStatus.ALREADY: _("{count} already done"),
        ActionStatus.DECLINED: _("{count} declined"),
        ActionStatus.REFUSED: _("{count} refused"),
        ActionStatus.FAILED: _("{count} failed"),
    }
    # What a person must do is counted apart: it was not refused to anybody.
    counts = Counter(result.outcome.status for result in results if not by_hand(result))
    parts = [texts[status].format(count=counts[status]) for status in ActionStatus if counts[status]]
    if any(map(by_hand, results)):
        parts.append(_("{count} by hand", count=sum(map(by_hand, results))))
    bad = [
        result
        for result in results
        if result.outcome.status is ActionStatus.FAILED
        or (result.outcome.status is ActionStatus.REFUSED and result.item.decides)
    ]
    return FixReport(
        exit_code=1 if is_unfinished else UNPROVEN if unproven else 0,
        changed=changed,
        would_change=any(result.planned for result in results),
        # Ansible's word: something that was wanted was not done.
        failed=unproven or bool(bad),
        msg=msg or _(", ").join(parts) or _("nothing to do"),
        run=run,
        actions=tuple(results),
    )


def by_hand(result: ItemResult) -> bool:
    """Return whether an item was left to a person: in the JSON its status is refused."""
    return result.outcome.status is ActionStatus.REFUSED and result.item.by_hand


def answer_of(
    results: Sequence[ItemResult], report: Report, run: Optional[str], *, changed: bool
) -> FixReport:
    """The report of a fix, which also says which of the selected checks gave no result, and why."""
    silent = [
        f"{row.check}: {row.reason}" if row.reason else row.check
        for row in report.results
        if row.status in UNANSWERED
    ]
    unproven = bool(silent) or any(result.item.unproven for result in results)
    answer = fix_report(results, run, changed=changed, unproven=unproven)
    # Where other items decide the status the missing answers are not the news.
    if not silent or (results and answer.exit_code != UNPROVEN):
        return answer
    reasons = _("; ").join(silent[:REASONS] + (["..."] if silent[REASONS:] else []))
    text = _("found nothing to fix, but could not check everything: {reasons}")
    if results:
        text = _("{result}; could not check everything: {reasons}")
    return replace(answer, msg=text.format(result=answer.msg, reasons=reasons))
