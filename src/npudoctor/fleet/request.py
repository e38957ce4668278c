"""What is asked of many nodes at once."""

from __future__ import annotations

from typing import Any, Optional

from npudoctor.core.frozen import dataclass


@dataclass(frozen=True)
class Request:
    """One command for many nodes. `seconds`: how long one node may take, its login included.

    `user`: None for the one that ssh chooses. `tree`: a TopologyTree of ClusterShell, if any. `carried`: a
    program of Python for nodes without npudoctor, taken away again; the command is what follows its name.
    """

    nodes: tuple[str, ...]
    command: tuple[str, ...]
    seconds: float
    fanout: int
    connect_seconds: float
    user: Optional[str] = None
    tree: Any = None
    carried: bytes = b""
