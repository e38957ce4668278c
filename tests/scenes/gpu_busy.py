"""Machines with GPUs that somebody holds, or nobody."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional, Union

from npudoctor.checks.gpu.gpu_busy import gpu_busy
from npudoctor.facts.gpu.nvml import APPS, FORMAT, GPUS, NO_MODULE
from npudoctor.host.process.commands import Answer
from npudoctor.testing import Asked, Content, ask, device, fake_host

from .npu_busy import USERS, me, one

PYTHON = os.path.basename(sys.executable)
NODES: dict[str, Content] = {f"/dev/nvidia{number}": device() for number in range(2)}
CONTAINER: dict[str, Content] = {"/.dockerenv": ""}
ABSENT = Answer((PYTHON,), "exited", NO_MODULE)


def gpu(
    index: int, *processes: tuple[int, Optional[int], bool], used: int = 4, **more: Any
) -> dict[str, Any]:
    """One GPU as the child tells it; memory in MiB, in `processes` too."""
    held = [[pid, None if memory is None else memory << 20, compute] for pid, memory, compute in processes]
    told = {"index": index, "uuid": f"GPU-{index}a2b", "name": "NVIDIA H100", "mig": False}
    return {**told, "used": used << 20, "total": 81559 << 20, "processes": held, **more}


def judge(
    told: Union[str, Answer, list[dict[str, Any]], None],
    *parts: Mapping[str, Content],
    tool: Optional[tuple[str, str]] = None,
    **more: Any,
) -> Asked:
    """What gpu-busy says of it. `tool`: what nvidia-smi answers instead to its two questions."""
    answer = json.dumps(told) if isinstance(told, list) else told
    commands: dict[Any, Any] = {} if answer is None else {PYTHON: answer}
    if tool is not None:
        for question, text in zip((f"--query-gpu={GPUS}", f"--query-compute-apps={APPS}"), tool):
            commands["nvidia-smi", question, FORMAT] = text
    files = dict(NODES)
    for part in (USERS, *parts):
        files.update(part)
    return ask(gpu_busy, fake_host(files, commands=commands, **more))


IDLE = [gpu(0), gpu(1)]
BUSY = [gpu(0, (71001, 30000, True), used=30010), gpu(1)]
FULL = [gpu(0), gpu(1, used=60000)]


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(gpu_busy, fake_host())
    yield judge(BUSY, me(), one(71001, uid=1001))
    yield judge(BUSY, me(), one(71001, 600, 500))
    yield judge(FULL)
    yield judge(FULL, CONTAINER)
    yield judge([gpu(0, mig=True)])
    yield judge([gpu(0), gpu(1, name="NVIDIA T4")], variables={"CUDA_VISIBLE_DEVICES": "1"})
    yield judge([gpu(0), gpu(1, trouble="GPU requires reset")])
    yield judge([gpu(0), gpu(1, trouble="GPU is lost")])
    yield judge([gpu(0, (0, 30000, True), used=30010)])
    yield judge(Answer((PYTHON,), "exited", 1, stderr="x" * 300))
    yield judge("?")
    yield judge(ABSENT)
    yield judge(ABSENT, tool=("no table", ""))
    yield judge(Answer((PYTHON,), "timeout"))
    yield judge(Answer((PYTHON,), "exited", 1, stderr="NVML: Driver/library version mismatch\n"))
