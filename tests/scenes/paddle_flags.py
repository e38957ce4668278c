"""paddle-flags: each of its sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npudoctor.checks.gpu.paddle_flags import paddle_flags
from npudoctor.testing import Asked, Content, ask, device, fake_host

GPUS: dict[str, Content] = {f"/dev/nvidia{number}": device() for number in range(4)}
PADDLE = {"paddlepaddle-gpu": "3.0.0"}

VARIABLES: tuple[dict[str, str], ...] = (
    {},
    {"FLAGS_of_mine": "1"},
    {"FLAGS_fraction_of_gpu_memory_to_use": "1.5", "FLAGS_fast_eager_deletion_mode": "on"},
    {"FLAGS_fraction_of_gpu_memory_to_use": "half", "FLAGS_initial_gpu_memory_in_mb": "-1"},
    {"FLAGS_allocator_strategy": "best", "FLAGS_gpu_memory_limit_mb": "8G", "FLAGS_selected_gpus": "all"},
    {"FLAGS_eager_delete_tensor_gb": "“0.0”", "FLAGS_selected_gpus": "0,7"},
    {"FLAGS_eager_delete_tensor_gb": "-1", "FLAGS_fast_eager_deletion_mode": "True"},
    {"FLAGS_fraction_of_gpu_memory_to_use": "0.5", "FLAGS_initial_gpu_memory_in_mb": "500"},
)


def judge(variables: Mapping[str, str], packages: Mapping[str, str] = PADDLE, **more: Any) -> Asked:
    """What paddle-flags says of these variables."""
    return ask(paddle_flags, fake_host(GPUS, variables=variables, packages=packages, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Every code, and every reason."""
    for variables in VARIABLES:
        yield judge(variables)
    yield judge(VARIABLES[2], {})
