"""Machines on which paddle-cpu says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.paddle_cpu import paddle_cpu
from npudoctor.testing import SITE, Asked, ask, fake_host, package_files


def scene(tmp: Path) -> Iterator[Asked]:
    """The code, and each ending."""
    paddle = package_files("paddlepaddle", "3.3.1")
    built = {f"{SITE}/paddle/version/__init__.py": "with_mkl = 'OFF'\n"}
    yield ask(paddle_cpu, fake_host())
    yield ask(paddle_cpu, fake_host(paddle))
    yield ask(paddle_cpu, fake_host(paddle, machine="aarch64"))
    yield ask(paddle_cpu, fake_host({**paddle, **built}))
