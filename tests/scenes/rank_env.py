"""rank-env: each of its sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.network.rank_env import rank_env as check
from npudoctor.testing import Asked, ask, device, fake_host

VARIABLES: tuple[dict[str, str], ...] = (
    {},
    {"RANK": "first", "WORLD_SIZE": "0"},
    {"RANK": "8", "WORLD_SIZE": "8"},
    {"RANK": "1", "WORLD_SIZE": "8", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4"},
    {"RANK": "1", "WORLD_SIZE": "8", "RANK_ID": "2", "RANK_SIZE": "8"},
    {"RANK_SIZE": "8", "WORLD_SIZE": "12"},
    {"MS_ROLE": "WORKER", "MS_WORKER_NUM": "8", "RANK_SIZE": "4"},
    {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "192.0.2.1:6070"},
    {"PADDLE_TRAINER_ENDPOINTS": "192.0.2.1:6070,192.0.2.1:6070"},
    {
        "PADDLE_TRAINER_ID": "0",
        "PADDLE_TRAINER_ENDPOINTS": "192.0.2.1:6070,192.0.2.2:6070",
        "PADDLE_CURRENT_ENDPOINT": "192.0.2.2:6070",
    },
    {"LOCAL_RANK": "2", "RANK": "2"},
    {"LOCAL_WORLD_SIZE": "8"},
)


def scene(tmp: Path) -> Iterator[Asked]:
    """Every code."""
    machine = {"/dev/davinci0": device(), "/dev/davinci1": device()}
    for variables in VARIABLES:
        yield ask(check, fake_host(machine, variables=variables))
