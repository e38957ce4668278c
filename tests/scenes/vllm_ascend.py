"""Machines on which vllm-ascend says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.vllm_ascend import vllm_ascend
from npudoctor.testing import Asked, ask, fake_host

from ..checks.python.stack_machine import site  # noqa: TID252
from ..checks.python.test_vllm_ascend import ROW, beside, old  # noqa: TID252


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    yield ask(vllm_ascend, fake_host())
    yield old(vllm="", torch_npu="")
    yield old(vllm="0.10.2", cann_version="8.1.RC1")
    yield beside("0.24.0", (), {"vllm": "0.24.0"}, "9.1.0")
    yield old(knowledge=site(tmp / "b", ROW.format(cann="8.3.RC2") + "compatible = false\n"))
    yield old(knowledge=site(tmp / "c", "x = ["))
