"""Containers on which container-mounts says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npudoctor.checks.device.container_mounts import container_mounts
from npudoctor.testing import Asked, Content, ask, fake_host, folder

from .device_nodes import CONTAINER, nodes
from .driver_machine import HAL, driver

GIVEN: dict[str, Content] = {**nodes(), **driver(), "/usr/local/dcmi": folder(), "/usr/local/bin/npu-smi": ""}


def told(*parts: Mapping[str, Content], without: tuple[str, ...] = (), **more: Any) -> Asked:
    files = {path: content for part in parts for path, content in part.items() if path not in without}
    return ask(container_mounts, fake_host(files, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told(GIVEN)
    yield told(CONTAINER)
    yield told(GIVEN, CONTAINER, without=(HAL,))
    yield told(GIVEN, CONTAINER, without=("/usr/local/dcmi",))
