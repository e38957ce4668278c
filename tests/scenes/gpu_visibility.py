"""Machines on which gpu-visibility says all that it can say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from npudoctor.checks.gpu.gpu_visibility import gpu_visibility
from npudoctor.facts.gpu.visible import RUNTIME
from npudoctor.testing import Asked, ask, device, fake_host

from .gpu_busy import PYTHON, gpu


def told(value: str, count: int = 2, *, answers: bool = True, **more: Any) -> Asked:
    """What it says of a shell with this value, on a machine with some GPUs: GPU-0a2b, GPU-1a2b, ..."""
    files: dict[str, Any] = {f"/dev/nvidia{number}": device() for number in range(count)}
    told_by_driver = json.dumps([gpu(number) for number in range(count)])
    commands: dict[Any, Any] = {PYTHON: told_by_driver} if answers else {}
    return ask(gpu_visibility, fake_host(files, variables={RUNTIME: value}, commands=commands, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told("0", 0)
    yield told("0,1")
    yield told("")
    yield told("7")
    yield told("1,1")
    yield told("0,7")
    yield told("MIG-1a2b")
    yield told("GPU-9")
