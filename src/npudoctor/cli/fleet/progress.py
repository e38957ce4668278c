"""How far the nodes are, in one line on a terminal's standard error; nobody else sees anything of it."""

from __future__ import annotations

from npudoctor.cli.terminal.status_line import LINE, can_show
from npudoctor.core.messages import _
from npudoctor.fleet.gathering import Gathering

_SLOWEST = 3  # names
_AFTER = 2.0  # seconds: who answers sooner is not slow


class NodeProgress:
    """Done, running, and who takes longest, by name."""

    def __init__(self) -> None:
        self._seen = can_show()

    def show(self, gathering: Gathering) -> None:
        """Draw the line anew."""
        if not self._seen:
            return
        total, left = len(gathering.request.nodes), len(gathering.pending_nodes)
        slowest = [f"{node} {seconds:.0f} s" for node, seconds in gathering.slowest_nodes if seconds > _AFTER]
        line = _("{done} of {total} nodes answered", done=total - left, total=total)
        if slowest:
            line += _("; slowest: {nodes}", nodes=", ".join(slowest[:_SLOWEST]))
        LINE.draw(line)

    def clear(self) -> None:
        """Take the line away."""
        if self._seen:
            LINE.clear()
