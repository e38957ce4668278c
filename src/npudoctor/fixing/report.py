"""What a fix or an undo answers: what became of each item, the line, and the exit status that says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.fixing.outcome import ActionStatus
from npudoctor.fixing.plan import ItemResult, anything_left

UNPROVEN = 2  # the exit status: nothing is left that could be dealt with, but not all could be judged


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
    exit_code = 1 if anything_left(results) else UNPROVEN if unproven else 0
    texts = {
        ActionStatus.PLANNED: _("{count} planned"),
        ActionStatus.APPLIED: _("{count} applied"),
        ActionStatus.ALREADY: _("{count} already done"),
        ActionStatus.DECLINED: _("{count} declined"),
        ActionStatus.REFUSED: _("{count} refused"),
        ActionStatus.FAILED: _("{count} failed"),
    }
    counts = Counter(result.outcome.status for result in results if not by_hand(result))
    parts = [texts[status].format(count=counts[status]) for status in ActionStatus if counts[status]]
    if any(map(by_hand, results)):
        parts.append(_("{count} by hand", count=sum(map(by_hand, results))))
    return FixReport(
        exit_code=exit_code,
        changed=changed,
        would_change=any(result.planned for result in results),
        failed=unproven or any(map(_bad, results)),
        msg=msg or _(", ").join(parts) or _("nothing to do"),
        run=run,
        actions=tuple(results),
    )


def by_hand(result: ItemResult) -> bool:
    """Whether it was left to a person: JSON says refused to that as well."""
    return result.outcome.status is ActionStatus.REFUSED and result.item.by_hand


def _bad(result: ItemResult) -> bool:
    status = result.outcome.status
    return status is ActionStatus.FAILED or (status is ActionStatus.REFUSED and result.item.decides)
