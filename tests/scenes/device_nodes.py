"""Machines on which device-nodes says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npudoctor.checks.device.device_nodes import device_nodes
from npudoctor.testing import Asked, Content, Node, ask, device, fake_host, folder

GROUP = 1001
SHARED = ("davinci_manager", "devmm_svm", "hisi_hdc")
GROUPS: dict[str, Content] = {"/etc/group": f"root:x:0:\nHwHiAiUser:x:{GROUP}:bob,carol\n"}
CONTAINER: dict[str, Content] = {"/.dockerenv": ""}


def nodes(count: int = 2, gid: int = GROUP, permissions: int = 0o660) -> dict[str, Content]:
    """The device nodes of a node with some NPUs."""
    names = (*(f"davinci{number}" for number in range(count)), *SHARED)
    return {f"/dev/{name}": device(permissions, gid) for name in names}


def told(*parts: Mapping[str, Content], without: str = "", user: str = "alice", **more: Any) -> Asked:
    files = {path: content for part in parts for path, content in part.items() if path != without}
    return ask(device_nodes, fake_host(files, euid=1000, user=user, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    ours = frozenset({GROUP})
    yield told()
    yield told(nodes(), GROUPS)
    yield told(nodes(), GROUPS, user="bob")
    yield told(nodes(), CONTAINER)
    yield told(nodes(permissions=0o600))
    yield told(nodes(), without="/dev/hisi_hdc", groups=ours)
    yield told(nodes(), CONTAINER, without="/dev/hisi_hdc", groups=ours)
    strange: dict[str, Content] = {
        "/dev/hisi_hdc": folder(),
        "/dev/devmm_svm": "",
        "/dev/davinci0": Node(kind=0o140000),
    }
    yield told(nodes(), strange, groups=ours)
    unmapped = {path: Node(kind=0o020000, permissions=0o660, uid=65534) for path in nodes()}
    yield ask(device_nodes, fake_host(unmapped))
