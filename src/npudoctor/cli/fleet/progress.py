"""How far the nodes are, in one line on a terminal's standard error; nobody else sees anything of it."""

from __future__ import annotations

import os
import shutil

from npudoctor.core.messages import _
from npudoctor.fleet.gathering import Gathering
from npudoctor.render.columns import width

_SLOWEST = 3  # names
_AFTER = 2.0  # seconds: who answers sooner is not slow


class NodeProgress:
    """Done, running, and who takes longest, by name."""

    def __init__(self) -> None:
        self._seen = os.isatty(2)

    def show(self, gathering: Gathering) -> None:
        """Draw the line anew."""
        if not self._seen:
            return
        total, left = len(gathering.request.nodes), len(gathering.left)
        slowest = [f"{node} {seconds:.0f} s" for node, seconds in gathering.slowest if seconds > _AFTER]
        line = _("{done} of {total} nodes answered").format(done=total - left, total=total)
        if slowest:
            line += _("; slowest: {nodes}").format(nodes=", ".join(slowest[:_SLOWEST]))
        room = shutil.get_terminal_size().columns - 1
        while width(line) > room:
            line = line[:-1]
        self._write(f"\r\x1b[K{line}")

    def clear(self) -> None:
        """Take the line away."""
        self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        if self._seen:
            try:
                os.write(2, text.encode("utf-8", "replace"))
            except OSError:
                self._seen = False
