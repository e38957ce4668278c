"""gpu-nodes: the GPUs' device nodes are complete, and this user may open them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from npudoctor import Severity, Status
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


@pytest.mark.parametrize(
    "answer",
    [
        told(nodes()),
        told(nodes(), CONTAINER),
        told(nodes(0o660), groups=frozenset({VIDEO})),
        ask(gpu_nodes, fake_host(nodes(0o600))),  # root opens all
        told(nodes(), without="/dev/nvidia-uvm"),  # on a host the first job has it made
        told(nodes(), {"/dev/nvidia1": device(0o600)}),  # one of two is somebody else's
    ],
)
def test_quiet(answer: object) -> None:
    assert (answer.status, answer.findings) == (Status.OK, ())  # type: ignore[attr-defined]


def test_without_a_gpu() -> None:
    assert told().status is Status.SKIPPED


def test_a_user_without_the_group() -> None:
    (finding,) = told(nodes(0o660), {"/etc/group": f"video:x:{VIDEO}:\n"}).findings
    assert (finding.code, finding.severity) == ("gpu-nodes.no-access", Severity.ERROR)
    assert finding.fix is not None and finding.fix.commands == ("usermod -aG video alice",)
    assert "/dev/nvidia0, /dev/nvidia1, /dev/nvidiactl" in finding.message


def test_what_all_share_is_closed() -> None:
    (finding,) = told(nodes(), {"/dev/nvidiactl": device(0o600)}).findings
    assert finding.code == "gpu-nodes.no-access"
    assert finding.evidence == ("crw------- uid=0 gid=0 /dev/nvidiactl",)


def test_a_container_without_uvm() -> None:
    (finding,) = told(nodes(), CONTAINER, without="/dev/nvidia-uvm").findings
    assert finding.code == "gpu-nodes.missing"
    assert finding.fix is not None and "--device /dev/nvidia-uvm" in str(finding.fix)


def test_no_device() -> None:
    (finding,) = told(nodes(), {"/dev/nvidia-uvm": folder()}).findings
    assert (finding.code, finding.device) == ("gpu-nodes.not-a-device", "/dev/nvidia-uvm")


def test_nobodys_nodes_cannot_be_told() -> None:
    from npudoctor.testing import Node

    unmapped = {path: Node(kind=0o020000, permissions=0o660, uid=65534) for path in nodes()}
    asked = ask(gpu_nodes, fake_host(unmapped))
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)
