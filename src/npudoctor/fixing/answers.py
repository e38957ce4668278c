"""What a fix or an undo answers: what became of each item, the line, and the exit status that says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor.fixing.outcome import Ending
from npudoctor.fixing.plan import Done, left
from npudoctor.frozen import dataclass
from npudoctor.messages import _


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


def answered(
    done: Sequence[Done], run: Optional[str], *, changed: bool, unproven: bool = False, msg: str = ""
) -> FixReport:
    """What became of all items, and the exit status that says it."""
    status = 1 if left(done) else 2 if unproven else 0
    bad = (Ending.REFUSED, Ending.FAILED)
    return FixReport(
        exit_code=status,
        changed=changed,
        would_change=any(one.outcome.ending is Ending.PLANNED for one in done),
        failed=unproven or any(one.outcome.ending in bad for one in done),
        msg=msg or _line(done, status),
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
        Ending.ALREADY: _("{count} done already"),
        Ending.DECLINED: _("{count} declined"),
        Ending.REFUSED: _("{count} refused"),
        Ending.FAILED: _("{count} failed"),
    }
    return texts[ending]
