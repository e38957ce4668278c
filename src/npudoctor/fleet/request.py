"""A command for many nodes at once."""

from __future__ import annotations

from typing import Any, Optional

from npudoctor.core.frozen import dataclass


@dataclass(frozen=True)
class Request:
    """One command for many nodes. `seconds`: how long one node may take, including its login.

    `fanout`: how many nodes at once. `user`: None for the one that ssh chooses. `tree`: a TopologyTree of
    ClusterShell, None without gateways. `carried`: npudoctor.pyz for nodes without npudoctor, removed again;
    `command` then holds its arguments only. b"": nothing is copied.
    """

    nodes: tuple[str, ...]
    command: tuple[str, ...]
    seconds: float
    fanout: int
    connect_seconds: float
    user: Optional[str] = None
    tree: Any = None
    carried: bytes = b""
