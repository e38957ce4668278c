"""training-env: each of its sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.training_env import training_env as check
from npudoctor.testing import Asked, ask, fake_host

VARIABLES: tuple[dict[str, str], ...] = (
    {},
    {"TASK_QUEUE_ENABLE": "3", "COMBINED_ENABLE": "7", "PTCOPY_ENABLE": "1", "ASCEND_TRACE_RECORD_NUM": "1"},
    {"TASK_QUEUE_ENABLE": "“1”", "COMBINED_ENABLE": "1；", "BMMV2_ENABLE": "“1”"},
    {"TASK_QUEUE_ENABLE": "fast", "ASCEND_LAUNCH_BLOCKING": "on"},
    {"TASK_QUEUE_ENABLE": ""},
    {"TASK_QUEUE_ENABLE": "2", "ASCEND_LAUNCH_BLOCKING": "1"},
)


def scene(tmp: Path) -> Iterator[Asked]:
    """Every code, and both lines of its fix."""
    for variables in VARIABLES:
        yield ask(check, fake_host(variables=variables, packages={"torch-npu": "2.7.1"}))
