"""Brings the nodes of `fleet pairs` together: all listen, then all are told of all, then all stop."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.parsing import json_of
from npudoctor.fleet.gathering import Answer, Gathering
from npudoctor.fleet.pairs import Side
from npudoctor.fleet.request import Request

LONGEST = 300  # characters of a reason


@dataclass(frozen=True)
class _Listening:
    """What a node said of itself."""

    ports: tuple[int, ...]
    held: dict[int, str]
    greeting: str
    address: Optional[str]


class Meeting(Gathering):
    """Who listens, who reached whom. What nodes say is read as what strangers say."""

    converses = True

    def __init__(self, request: Request, ports: Sequence[int]) -> None:
        super().__init__(request, self._note_end)
        self._ports = frozenset(ports)
        self._listening: dict[str, _Listening] = {}
        self._failed: dict[str, dict[str, tuple[frozenset[int], str]]] = {}
        self._errors: dict[str, str] = {}
        self._phase = 0
        self._heard_at = time.monotonic()

    @property
    def sides(self) -> list[Side]:
        """What each node did, once all is over."""
        return [self._side(node) for node in self.request.nodes]

    def hear(self, node: str, line: bytes) -> None:
        """A line that this node printed."""
        frame = self.frame(node)
        frame.add(line)
        if not frame.begun or not line.startswith(b"{"):
            return
        try:
            document = json_of(line)
        except ValueError:
            return
        if node not in self._listening:
            listening = _parse_listening(document, self._ports)
            if listening is not None:
                self._listening[node], self._heard_at = listening, time.monotonic()
        elif self._phase and "failed" in document:
            failed = {}
            rows = document["failed"]
            for target, row in rows.items() if isinstance(rows, dict) else ():
                known = self._listening.get(target)
                if known is None or not isinstance(row, dict) or not isinstance(row.get("ports"), list):
                    continue
                ports = frozenset(port for port in row["ports"] if type(port) is int)
                failed[target] = ports & frozenset(known.ports), str(row.get("reason"))[:LONGEST]
            self._failed[node] = failed

    def next_message(self) -> Optional[bytes]:
        """The peers, once everybody listens or nobody new came for as long as a connection may take.

        The end, once everybody has tried.
        """
        waiting = [node for node in self.left if node not in self._listening]
        patient = time.monotonic() - self._heard_at < self.request.connect_seconds
        if self._phase == 0 and self._listening and not (waiting and patient):
            self._phase = 1
            rows = [
                [node, there.address or node, there.greeting, there.ports]
                for node, there in self._listening.items()
                if node in self._left
            ]
            return json.dumps(rows).encode() + b"\n"
        if self._phase == 1 and not any(node not in self._failed for node in self._waiting_nodes()):
            self._phase = 2
            return b""
        return None

    @property
    def awaited(self) -> bool:
        """Whoever comes once the others have met is too late."""
        return bool(self._waiting_nodes() if self._phase == 2 else self.left)

    def _waiting_nodes(self) -> list[str]:
        return [node for node in self.left if node in self._listening]

    def _note_end(self, answer: Answer) -> None:
        """Called by the carrier when it is done with a node."""
        if answer.node not in self._failed:
            self._errors[answer.node] = answer.why

    def _side(self, node: str) -> Side:
        there = self._listening.get(node)
        if there is None or node not in self._failed:
            late = there is not None and self._phase == 0
            why = _("stopped before the node answered") if late else self._errors.get(node, "")
            return Side(node, error=why or _("no answer in time"))
        failed = {peer: ports for peer, ports in self._failed[node].items() if peer != node}
        return Side(node, frozenset(there.ports), there.held, failed)


def _parse_listening(document: Any, asked: frozenset[int]) -> Optional[_Listening]:
    """What a node that listens says of itself; None for anything else."""
    if not isinstance(document, dict) or not isinstance(document.get("bound"), list):
        return None
    ports = tuple(sorted(port for port in document["bound"] if type(port) is int and port in asked))
    held = document.get("held")
    reasons = {
        int(port): str(why)[:LONGEST]
        for port, why in (held.items() if isinstance(held, dict) else ())
        if port.isdecimal() and int(port[:9]) in asked
    }
    address: Optional[str] = None
    with suppress(ValueError):  # a name would be looked up by all other nodes
        if isinstance(document.get("address"), str):
            address = str(ip_address(document["address"]))
    return _Listening(ports, reasons, str(document.get("greeting"))[:64], address)
