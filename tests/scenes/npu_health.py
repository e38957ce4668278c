"""Machines on which npu-health says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.device.npu_health import npu_health
from npudoctor.testing import Asked, ask, fake_host

from .npu_machine import health, screen, told


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(npu_health, fake_host())
    yield told(npu_health, None)
    yield told(npu_health, screen("c_910b2_24.1.0_alarm"), commands={health(1): screen("health_alarm")})
