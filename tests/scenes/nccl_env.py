"""nccl-env: each of its sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npudoctor.checks.gpu.nccl_env import nccl_env
from npudoctor.testing import Asked, Content, ask, device, fake_host

GPUS: dict[str, Content] = {"/dev/nvidia0": device(), "/dev/nvidia1": device()}
TORCH = {"torch": "2.9.0"}

VARIABLES: tuple[dict[str, str], ...] = (
    {"NCCL_IB_SL": "99", "NCCL_IB_TC": "106s", "NCCL_CROSS_NIC": "many", "NCCL_DEBUG": "VERBOSE"},
    {"NCCL_ALGO": "ring;tree", "NCCL_PROTO": "Simple;scatter:LL", "NCCL_P2P_LEVEL": "near"},
    {"NCCL_ALGO": "rings", "TORCH_NCCL_BLOCKING_WAIT": "on", "NCCL_SOCKET_FAMILY": "“AF_INET”"},
    {"NCCL_IB_DISABLE": "true", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
    {
        "NCCL_IB_DISABLE": "1",
        "NCCL_DEBUG": "INFO",
        "NCCL_SOCKET_NTHREADS": "16",
        "NCCL_NSOCKS_PERTHREAD": "8",
    },
    {"NCCL_ASYNC_ERROR_HANDLING": "1", "NCCL_TREE_THRESHOLD": "0", "NCCL_SINGLE_RING_THRESHOLD": "1"},
    {"NCCL_P2P_DISABLED": "1"},
)


def judge(variables: Mapping[str, str], files: Mapping[str, Content] = GPUS, **more: Any) -> Asked:
    """What nccl-env says of these variables."""
    return ask(nccl_env, fake_host(files, variables=variables, packages=TORCH, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Every code, and every reason."""
    yield judge({})
    yield judge({"NCCL_DEBUG": "INFO"}, {})
    for variables in VARIABLES:
        yield judge(variables)
