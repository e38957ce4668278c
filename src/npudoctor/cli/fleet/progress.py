"""Shows the progress of the nodes in one line on standard error, when that is a terminal."""

from __future__ import annotations

from npudoctor.cli.terminal.status_line import LINE, can_show
from npudoctor.core.messages import _
from npudoctor.fleet.gathering import Gathering

_SLOWEST = 3  # how many node names the line lists
_AFTER = 2.0  # seconds after which a node counts as slow


class NodeProgress:
    """The progress line: how many nodes have answered, and which ones take longest."""

    def __init__(self) -> None:
        self._is_shown = can_show()

    def show(self, gathering: Gathering) -> None:
        """Draw the line again."""
        if not self._is_shown:
            return
        total, pending_count = len(gathering.request.nodes), len(gathering.pending_nodes)
        slowest = [f"{node} {seconds:.0f} s" for node, seconds in gathering.slowest_nodes if seconds > _AFTER]
        line = _("{done} of {total} nodes answered", done=total - pending_count, total=total)
        if slowest:
            line += _("; slowest: {nodes}", nodes=", ".join(slowest[:_SLOWEST]))
        LINE.draw(line)

    def clear(self) -> None:
        """Remove the line."""
        if self._is_shown:
            LINE.clear()
