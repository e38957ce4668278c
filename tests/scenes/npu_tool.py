"""Machines on which npu-tool says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.device.npu_tool import npu_tool
from npudoctor.host.process.commands import Answer
from npudoctor.testing import Asked, ask, fake_host, process_files

from . import npu_machine as npu
from .npu_machine import CONTAINER, INFO, exited, screen, told

STUCK = process_files(4711, "npu-smi", state="D")
HUNG = Answer(INFO, "timeout")


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(npu_tool, fake_host())
    for failure in (npu.NO_DRIVER, npu.NO_RIGHTS, npu.USED, npu.NO_LIBRARY, npu.NO_CARD, npu.USAGE):
        yield told(npu_tool, failure)
        yield told(npu_tool, failure, CONTAINER)
    yield told(npu_tool, npu.NOT_READY)
    yield told(npu_tool, None)
    yield told(npu_tool, None, CONTAINER)
    yield told(npu_tool, HUNG, STUCK)
    yield told(npu_tool, screen("d_a3_25.0.1_idle") + npu.INCOMPLETE, count=9)
    ends = ("timeout", None), ("flooded", None), ("untrusted", None), ("not-started", None), ("exited", -9)
    for ended, status in ends:
        yield told(npu_tool, Answer(INFO, ended, status))
    yield told(npu_tool, exited(""))
    yield told(npu_tool, exited("Bonjour"))
