"""Machines on which paddle-npu says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.paddle_npu import paddle_npu
from npudoctor.testing import Asked, ask, fake_host

from ..checks.python.stack_machine import site  # noqa: TID252
from ..checks.python.test_paddle_npu import ROW, beside  # noqa: TID252


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    yield ask(paddle_npu, fake_host())
    yield beside("3.0.0")
    yield beside("3.0.0", "3.2.0", "8.3.RC1", name="paddlepaddle-gpu")
    yield beside("3.0.0", "3.0.0", "7.0.0")
    forbidden = site(tmp / "b", ROW.format(cann="8.0.RC1") + "compatible = false\n")
    yield beside("3.0.0", "3.0.0", "8.0.RC1", knowledge=forbidden)
    yield beside("3.0.0", "3.0.0", "8.0.RC1", knowledge=site(tmp / "c", "x = ["))
