"""Collects the answers of many nodes while an engine (ssh, Slurm) runs one command on them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Callable, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.fleet.remote import NOT_THERE, AnswerFrame, new_mark, why_no_answer
from npudoctor.fleet.request import Request


@dataclass(frozen=True)
class NodeAnswer:
    """The outcome on one node. `text`: everything the command printed, None when it did not finish.

    `why`: the reason to show when there is no text, or when the text is not a valid report.
    `reached`: whether the command was started there. `missing`: whether the node has no such program.
    `ahead`: by how many seconds, at least, the node's clock is ahead of ours; negative when it is behind,
    None when the node told no time.
    """

    node: str
    text: Optional[str]
    why: str
    reached: bool
    missing: bool = False
    ahead: Optional[float] = None


class Gathering:
    """The answers so far. `take` is called with the answer of each node as soon as it is complete."""

    # Whether the command reads messages from us while it runs, as `fleet pairs` does.
    converses = False

    def __init__(self, request: Request, take: Callable[[NodeAnswer], None]) -> None:
        self.request = request
        self.mark = new_mark()
        self._take = take
        self._frames: dict[str, AnswerFrame] = {}
        self._begun_at: dict[str, float] = {}
        self._asked_at: dict[str, float] = {}
        self._pending = dict.fromkeys(request.nodes)

    @property
    def pending_nodes(self) -> Sequence[str]:
        """The nodes that have not answered yet."""
        return tuple(self._pending)

    @property
    def slowest_nodes(self) -> Sequence[tuple[str, float]]:
        """Pairs of a node that is being asked and for how many seconds, longest first."""
        now = time.monotonic()
        return sorted(
            ((node, now - begun) for node, begun in self._begun_at.items()), key=lambda row: -row[1]
        )

    def begin(self, node: str) -> None:
        """Note that this node is being asked from now on."""
        self._begun_at[node], self._asked_at[node] = time.monotonic(), time.time()

    def frame(self, node: str) -> AnswerFrame:
        """The AnswerFrame that collects the lines of this node; made at the first call."""
        frame = self._frames.get(node)
        if frame is None:
            frame = self._frames[node] = AnswerFrame(self.mark)
        return frame

    def hear(self, node: str, line: bytes) -> None:
        """Take one line that this node printed on standard output."""
        self.frame(node).add(line)

    def next_message(self) -> Optional[bytes]:
        """The line to send to all nodes now; None: nothing yet, b"": no more will come, close their input."""
        return None

    @property
    def is_waiting(self) -> bool:
        """Whether an answer that may still come would change the result."""
        return bool(self._pending)

    def end(self, node: str, code: Optional[int] = None, timed_out: bool = False, why: str = "") -> None:
        """Note that nothing more comes from this node; a second call for the same node does nothing.

        `code`: the exit code of ssh or srun; `why`: a better reason than the one derived from it, if known.
        """
        if node not in self._pending:
            return
        del self._pending[node]
        self._begun_at.pop(node, None)
        # Both clocks: the monotonic one measures how long a node takes, wall time is compared with the
        # node's.
        asked_at = self._asked_at.pop(node, 0.0)
        frame = self._frames.pop(node, None) or AnswerFrame(self.mark)
        is_complete = frame.has_ended and not frame.too_long
        why = why if why and not frame.has_begun else why_no_answer(frame, code, timed_out)
        is_missing = frame.status in NOT_THERE
        if is_missing and not (self.request.carried or self.converses):
            why = _("{why}; --push --file npudoctor.pyz copies it to the node", why=why)
        self._take(
            NodeAnswer(
                node,
                frame.text() if is_complete else None,
                why,
                frame.has_begun,
                is_missing,
                frame.clock_lead(asked_at),
            )
        )

    def stop(self) -> None:
        """End all nodes that have not answered: nobody waits for them any more."""
        for node in self.pending_nodes:
            del self._pending[node]
            self._take(NodeAnswer(node, None, _("stopped before the node answered"), reached=True))
