"""Machines on which device-visibility says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from npudoctor.checks.device.device_visibility import device_visibility
from npudoctor.testing import Asked, Content, ask, fake_host

from .device_nodes import CONTAINER, nodes

RT = "ASCEND_RT_VISIBLE_DEVICES"
OUTER = "ASCEND_VISIBLE_DEVICES"


def told(variables: Mapping[str, str], *parts: Mapping[str, Content], count: int = 8) -> Asked:
    files = {path: content for part in (nodes(count), *parts) for path, content in part.items()}
    return ask(device_visibility, fake_host(files, variables=variables))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(device_visibility, fake_host())
    yield told({})
    for value in ("", "all", "8", "1, 2,3", "1,3,8", "3,1", "9" * 5000):
        yield told({RT: value})
    yield told({OUTER: "0,1"})
    yield told({OUTER: "0," * 3000}, CONTAINER)
    yield told({OUTER: "6-9"}, CONTAINER)
    yield told({"SLURM_JOB_GPUS": "2,3"})
