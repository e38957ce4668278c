"""Machines on which gpu-nodes says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npudoctor.checks.gpu.gpu_nodes import gpu_nodes
from npudoctor.testing import Asked, Content, Node, ask, device, fake_host, folder

VIDEO = 44
CONTAINER: dict[str, Content] = {"/.dockerenv": ""}
NAMES = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm")


def nodes(permissions: int = 0o666, gid: int = VIDEO) -> dict[str, Content]:
    """The device nodes of a machine with two GPUs."""
    return {f"/dev/{name}": device(permissions, gid) for name in NAMES}


def told(*parts: Mapping[str, Content], without: str = "", **more: Any) -> Asked:
    """What it says to alice, who is in no group."""
    files = {path: content for part in parts for path, content in part.items() if path != without}
    return ask(gpu_nodes, fake_host(files, euid=1000, user="alice", **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told()
    yield told(nodes())
    yield told(nodes(0o660))
    yield told(nodes(0o600))
    yield told(nodes(), {"/dev/nvidiactl": folder()})
    yield told(nodes(), CONTAINER, without="/dev/nvidia-uvm")
    unmapped = {path: Node(kind=0o020000, permissions=0o660, uid=65534) for path in nodes()}
    yield ask(gpu_nodes, fake_host(unmapped))
