"""What is asked of many nodes at once, and what an engine tells while it asks them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Callable, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.fleet.reading import Found, Item, Unreadable, find_reports
from npudoctor.fleet.remote import Frame, new_mark, why_no_answer


@dataclass(frozen=True)
class Request:
    """One command for many nodes. `seconds`: how long one node may take, its login included.

    `user`: None for the one that ssh chooses. `tree`: a topology of ClusterShell, if any.
    """

    nodes: tuple[str, ...]
    command: tuple[str, ...]
    seconds: float
    fanout: int
    connect_seconds: float
    user: Optional[str] = None
    tree: Optional[str] = None


class Gathering:
    """The answers so far. `take` is called with each node's item as soon as it is known."""

    def __init__(self, request: Request, take: Callable[[Item], None]) -> None:
        self.request = request
        self.mark = new_mark()
        self._take = take
        self._frames: dict[str, Frame] = {}
        self._begun: dict[str, float] = {}
        self._left = dict.fromkeys(request.nodes)

    @property
    def left(self) -> Sequence[str]:
        """The nodes that have not answered yet."""
        return tuple(self._left)

    @property
    def slowest(self) -> Sequence[tuple[str, float]]:
        """The nodes that are being asked, and for how many seconds; the longest first."""
        now = time.monotonic()
        return sorted(((node, now - begun) for node, begun in self._begun.items()), key=lambda row: -row[1])

    def begin(self, node: str) -> None:
        """This node is being asked."""
        self._begun[node] = time.monotonic()

    def frame(self, node: str) -> Frame:
        """Where the lines of this node go."""
        frame = self._frames.get(node)
        if frame is None:
            frame = self._frames[node] = Frame(self.mark)
        return frame

    def place(self, node: str, frame: Frame) -> None:
        """These lines turned out to be those of this node."""
        self._frames[node] = frame

    def end(self, node: str, code: Optional[int] = None, timed_out: bool = False) -> None:
        """Nothing more comes from this node. `code`: the status of what connected us."""
        if node not in self._left:
            return
        del self._left[node]
        self._begun.pop(node, None)
        frame = self._frames.pop(node, None) or Frame(self.mark)
        self._take(self._item(node, frame, code, timed_out))

    def stop(self) -> None:
        """Nobody waits any more: whoever has not answered has not."""
        for node in self.left:
            del self._left[node]
            self._take(Unreadable(node, node, _("stopped before it answered")))

    def _item(self, node: str, frame: Frame, code: Optional[int], timed_out: bool) -> Item:
        if frame.ended and not frame.too_long:
            try:
                document = json.loads(frame.text())
            except (ValueError, RecursionError):
                document = None
            for item in find_reports(document, node, node):
                return Found(item.report, node, node) if isinstance(item, Found) else item
        return Unreadable(node, node, why_no_answer(frame, code, timed_out), unreachable=not frame.begun)
