"""What a fix or an undo answers: what became of each item, the line, and the exit status that says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.fixing.outcome import ActionStatus
from npudoctor.fixing.plan import ItemResult, anything_left


@dataclass(frozen=True)
class FixReport:
    """The answer of `fix`; `run` is null when nothing was written down."""

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
    """What became of all items, and the exit status that says it."""
    status = 1 if anything_left(results) else 2 if unproven else 0
    return FixReport(
        exit_code=status,
        changed=changed,
        would_change=any(result.outcome.ending is ActionStatus.PLANNED for result in results),
        failed=unproven or any(map(_bad, results)),
        msg=msg or _line(results, status),
        run=run,
        actions=tuple(results),
    )


def by_hand(result: ItemResult) -> bool:
    """Whether it was left to a person: JSON says refused to that as well."""
    return result.outcome.ending is ActionStatus.REFUSED and result.item.by_hand


def _bad(result: ItemResult) -> bool:
    ending = result.outcome.ending
    return ending is ActionStatus.FAILED or (ending is ActionStatus.REFUSED and result.item.decides)


def _line(results: Sequence[ItemResult], status: int) -> str:
    if not results:
        return _("nothing to do")
    parts = []
    for ending in ActionStatus:
        number = sum(result.outcome.ending is ending and not by_hand(result) for result in results)
        if number:
            parts.append(_counted(ending).format(count=number))
    count_by_hand = sum(map(by_hand, results))
    if count_by_hand:
        parts.append(_("{count} by hand").format(count=count_by_hand))
    return _(", ").join(parts)


def _counted(ending: ActionStatus) -> str:
    texts = {
        ActionStatus.PLANNED: _("{count} planned"),
        ActionStatus.APPLIED: _("{count} applied"),
        ActionStatus.ALREADY: _("{count} already done"),
        ActionStatus.DECLINED: _("{count} declined"),
        ActionStatus.REFUSED: _("{count} refused"),
        ActionStatus.FAILED: _("{count} failed"),
    }
    return texts[ending]
