"""What is asked of many nodes at once, and what an engine tells while it asks them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Callable, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.fleet.remote import NOT_THERE, Frame, new_mark, why_no_answer
from npudoctor.fleet.request import Request


@dataclass(frozen=True)
class Answer:
    """What became of one node. `text`: all that the command printed, None when it did not end.

    `why`: what to say when there is no text, or when the text is not what was asked for.
    `reached`: whether the command was started there. `missing`: whether there is no such program.
    `ahead`: how many seconds its clock is at least ahead of ours, below 0 behind; None where it told no time.
    """

    node: str
    text: Optional[str]
    why: str
    reached: bool
    missing: bool = False
    ahead: Optional[float] = None


class Gathering:
    """The answers so far. `take` is called with each node's as soon as it is known."""

    # Whether the command reads what is told to all nodes while it runs.
    converses = False

    def __init__(self, request: Request, take: Callable[[Answer], None]) -> None:
        self.request = request
        self.mark = new_mark()
        self._take = take
        self._frames: dict[str, Frame] = {}
        self._begun: dict[str, float] = {}
        self._asked: dict[str, float] = {}
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
        self._begun[node], self._asked[node] = time.monotonic(), time.time()

    def frame(self, node: str) -> Frame:
        """Where the lines of this node go."""
        frame = self._frames.get(node)
        if frame is None:
            frame = self._frames[node] = Frame(self.mark)
        return frame

    def hear(self, node: str, line: bytes) -> None:
        """A line that this node printed."""
        self.frame(node).add(line)

    def next_message(self) -> Optional[bytes]:
        """What all nodes are to be told now, b"" once that was all; None for nothing."""
        return None

    @property
    def awaited(self) -> bool:
        """Whether an answer that still may come would change anything."""
        return bool(self._left)

    def end(self, node: str, code: Optional[int] = None, timed_out: bool = False, why: str = "") -> None:
        """Nothing more comes from this node. `code`: of what connected us; `why`: where more is known."""
        if node not in self._left:
            return
        del self._left[node]
        self._begun.pop(node, None)
        asked = self._asked.pop(node, 0.0)
        frame = self._frames.pop(node, None) or Frame(self.mark)
        whole = frame.ended and not frame.too_long
        why = why if why and not frame.begun else why_no_answer(frame, code, timed_out)
        missing = frame.status in NOT_THERE
        if missing and not (self.request.carried or self.converses):
            why = _("{why}; --push --file npudoctor.pyz copies it to the node", why=why)
        self._take(
            Answer(node, frame.text() if whole else None, why, frame.begun, missing, frame.ahead(asked))
        )

    def stop(self) -> None:
        """Nobody waits any more: whoever has not answered has not."""
        for node in self.left:
            del self._left[node]
            self._take(Answer(node, None, _("stopped before the node answered"), reached=True))
