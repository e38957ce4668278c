"""What `fix` and `undo` share at the terminal: showing the plan, asking, and writing the result."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional

from npudoctor.core.messages import _

if TYPE_CHECKING:
    from npudoctor.fixing.engine import FixReport
    from npudoctor.fixing.plan import Item


def show_plan(items: Sequence[Item]) -> None:
    """Print the plan on standard error."""
    from npudoctor.cli.terminal.reports import style_at
    from npudoctor.render.fix import plan_text

    sys.stderr.write(plan_text(items, style_at(2)))
    sys.stderr.flush()


def confirm(item: Item) -> Optional[bool]:
    """Show what an item runs and ask at the terminal; the default is no. None when there is no terminal."""
    from npudoctor.render.fix import item_lines
    from npudoctor.render.printable import printable

    if not sys.stdin or not sys.stdin.isatty():
        return None
    lines = "".join(line + "\n" for line in item_lines(item))
    question = _("{message}: do this? [y/N] ", message=item.finding.message)
    sys.stderr.write("\n" + lines + printable(question))
    sys.stderr.flush()
    # The Chinese "yes", as the question may be in Chinese.
    return sys.stdin.readline().strip().lower() in ("y", "yes", "是")


def deliver_fix(report: FixReport, format: str) -> None:
    """Write the result of a run of `fix` or `undo`."""
    from npudoctor.cli.terminal.reports import deliver, style_for
    from npudoctor.render.fix import fix_object, fix_text

    deliver(format, lambda: fix_object(report), lambda: fix_text(report, style_for(None)))
