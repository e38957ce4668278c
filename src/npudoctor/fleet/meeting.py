"""Coordinates the nodes of `fleet pairs`: all listen, then each gets the list of peers, then all stop."""

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
from npudoctor.fleet.gathering import Gathering, NodeAnswer
from npudoctor.fleet.pairs import NodeConnections
from npudoctor.fleet.request import Request

LONGEST = 300  # characters of a reason


@dataclass(frozen=True)
class _ListeningNode:
    """What a listening node reported. `held`: by port, why it could not listen; `address`: None for its
    name."""

    ports: tuple[int, ...]
    held: dict[int, str]
    greeting: str
    address: Optional[str]


class PairsGathering(Gathering):
    """Gathers which nodes listen and which they reached. What nodes print is read as untrusted data."""

    converses = True

    def __init__(self, request: Request, ports: Sequence[int]) -> None:
        super().__init__(request, self._note_end)
        self._ports = frozenset(ports)
        self._listening: dict[str, _ListeningNode] = {}
        self._failed: dict[str, dict[str, tuple[frozenset[int], str]]] = {}
        self._errors: dict[str, str] = {}
        self._phase = 0
        self._heard_at = time.monotonic()

    @property
    def connections(self) -> list[NodeConnections]:
        """What each node did, in the order of the request; complete once the run has ended."""
        return [self._connections_of(node) for node in self.request.nodes]

    def hear(self, node: str, line: bytes) -> None:
        """Take one line that this node printed; lines that are not JSON of its part are ignored."""
        frame = self.frame(node)
        frame.add(line)
        if not frame.has_begun or not line.startswith(b"{"):
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
                target_node = self._listening.get(target)
                if target_node is None or not isinstance(row, dict) or not isinstance(row.get("ports"), list):
                    continue
                # type() is int: True and False are instances of int, too.
                ports = frozenset(port for port in row["ports"] if type(port) is int)
                failed[target] = ports & frozenset(target_node.ports), str(row.get("reason"))[:LONGEST]
            self._failed[node] = failed

    def next_message(self) -> Optional[bytes]:
        """The list of peers, once all listen or none has joined for as long as a connection may take.

        b"", once each has tried all others; None before.
        """
        silent_nodes = [node for node in self.pending_nodes if node not in self._listening]
        may_wait = time.monotonic() - self._heard_at < self.request.connect_seconds
        if self._phase == 0 and self._listening and not (silent_nodes and may_wait):
            self._phase = 1
            rows = [
                [node, listening.address or node, listening.greeting, listening.ports]
                for node, listening in self._listening.items()
                if node in self._pending
            ]
            return json.dumps(rows).encode() + b"\n"
        if self._phase == 1 and not any(node not in self._failed for node in self._waiting_nodes()):
            self._phase = 2
            return b""
        return None

    @property
    def is_waiting(self) -> bool:
        """Whether an answer that may still come counts: after the peers were sent, a new node is too late."""
        return bool(self._waiting_nodes() if self._phase == 2 else self.pending_nodes)

    def _waiting_nodes(self) -> list[str]:
        return [node for node in self.pending_nodes if node in self._listening]

    def _note_end(self, answer: NodeAnswer) -> None:
        """Keep the reason when a node ended before it reported its connections."""
        if answer.node not in self._failed:
            self._errors[answer.node] = answer.why

    def _connections_of(self, node: str) -> NodeConnections:
        listening = self._listening.get(node)
        if listening is None or node not in self._failed:
            is_interrupted = listening is not None and self._phase == 0
            why = _("stopped before the node answered") if is_interrupted else self._errors.get(node, "")
            return NodeConnections(node, error=why or _("no answer in time"))
        failed = {peer: ports for peer, ports in self._failed[node].items() if peer != node}
        return NodeConnections(node, frozenset(listening.ports), listening.held, failed)


def _parse_listening(document: Any, expected_ports: frozenset[int]) -> Optional[_ListeningNode]:
    """Read what a listening node reports of itself; None when the document is anything else."""
    if not isinstance(document, dict) or not isinstance(document.get("bound"), list):
        return None
    ports = tuple(sorted(port for port in document["bound"] if type(port) is int and port in expected_ports))
    reason_by_port_name = document.get("held")
    reasons = {
        int(port): str(why)[:LONGEST]
        for port, why in (reason_by_port_name.items() if isinstance(reason_by_port_name, dict) else ())
        # Nine digits: int() raises a ValueError at more than 4300 digits (CPython 3.11, and backports to
        # 3.9).
        if port.isdecimal() and int(port[:9]) in expected_ports
    }
    address: Optional[str] = None
    with suppress(ValueError):  # an address only: all other nodes would look up a name
        if isinstance(document.get("address"), str):
            address = str(ip_address(document["address"]))
    return _ListeningNode(ports, reasons, str(document.get("greeting"))[:64], address)
