"""paddle-flags: Paddle's flags in the environment are what Paddle takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.gpu.paddle_flags import paddle_flags
from npudoctor.knowledge import tables
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


ROWS = tables.table("paddle_flags")["flag"]


def test_the_table_is_whole() -> None:
    assert len({row["name"] for row in ROWS}) == len(ROWS)
    assert all(row["source"] and row["as_of"] for row in ROWS)


@pytest.mark.parametrize(
    "variables",
    [
        {"FLAGS_eager_delete_tensor_gb": "0.0", "FLAGS_fast_eager_deletion_mode": "1"},
        {"FLAGS_eager_delete_tensor_gb": "1e-3", "FLAGS_memory_fraction_of_eager_deletion": "0.5"},
        {"FLAGS_fraction_of_gpu_memory_to_use": "0.92", "FLAGS_allocator_strategy": "naive_best_fit"},
        {"FLAGS_fraction_of_gpu_memory_to_use": "0.5", "FLAGS_initial_gpu_memory_in_mb": "0"},
        {"FLAGS_selected_gpus": "0,1,2,3", "FLAGS_sync_nccl_allreduce": "False"},
        {"FLAGS_selected_npus": "7", "FLAGS_gpu_memory_limit_mb": ""},
        {"FLAGS_fast_eager_deletion_mode": "False"},
    ],
)
def test_quiet_when_well(variables: dict[str, str]) -> None:
    asked = judge(variables)
    assert (asked.status, asked.codes) == (Status.OK, [])


@pytest.mark.parametrize(
    ("name", "value", "code", "words"),
    [
        ("FLAGS_fraction_of_gpu_memory_to_use", "1.5", "bad-value", "not between 0 and 1"),
        ("FLAGS_fraction_of_gpu_memory_to_use", "92%", "bad-value", "not a number"),
        ("FLAGS_fraction_of_gpu_memory_to_use", "nan", "bad-value", "not between"),
        ("FLAGS_initial_gpu_memory_in_mb", "-5", "bad-value", "below 0"),
        ("FLAGS_gpu_memory_limit_mb", "8G", "bad-value", "plain digits"),
        ("FLAGS_fast_eager_deletion_mode", "on", "bad-value", "not one of true"),
        ("FLAGS_allocator_strategy", "best_fit", "bad-value", "not one of auto_growth"),
        ("FLAGS_selected_gpus", "gpu0", "bad-value", "not a comma-separated list of numbers"),
        ("FLAGS_eager_delete_tensor_gb", "“0.0”", "pasted-punctuation", "probably 0.0 was meant"),
        ("FLAGS_selected_gpus", "0,4", "no-such-device", "there are only 4 devices: 4 is not one"),
        ("FLAGS_eager_delete_tensor_gb", "-1.0", "collection-off", "keeps memory that is no longer used"),
    ],
)
def test_what_is_said(name: str, value: str, code: str, words: str) -> None:
    (finding,) = judge({name: value}).findings
    assert finding.code == f"paddle-flags.{code}"
    assert words in finding.message
    assert finding.severity is (Severity.INFO if code == "collection-off" else Severity.WARNING)


def test_flags_that_take_away_each_others_effect() -> None:
    off = {"FLAGS_eager_delete_tensor_gb": "-1", "FLAGS_fast_eager_deletion_mode": "True"}
    asked = judge(off)
    assert set(asked.codes) == {"paddle-flags.collection-off", "paddle-flags.no-effect"}
    both = {"FLAGS_fraction_of_gpu_memory_to_use": "0.5", "FLAGS_initial_gpu_memory_in_mb": "500"}
    (finding,) = judge(both).findings
    assert (finding.code, finding.severity) == ("paddle-flags.no-effect", Severity.INFO)
    assert finding.fix is not None
    assert finding.fix.commands == ("unset FLAGS_fraction_of_gpu_memory_to_use",)


def test_npus_are_counted_too() -> None:
    npus: dict[str, Content] = {f"/dev/davinci{number}": device() for number in range(8)}
    for value, codes in (("7", []), ("8", ["paddle-flags.no-such-device"])):
        host = fake_host(
            npus, variables={"FLAGS_selected_npus": value}, packages={"paddle-custom-npu": "3.0.0"}
        )
        assert ask(paddle_flags, host).codes == codes


def test_skipped() -> None:
    wrong = {"FLAGS_fraction_of_gpu_memory_to_use": "2"}
    assert judge({}).status is Status.SKIPPED
    assert judge({"FLAGS_logtostderr": "1"}).status is Status.SKIPPED
    assert judge(wrong, {}).status is Status.SKIPPED
    assert judge(wrong, {"torch": "2.9.0"}).status is Status.SKIPPED
    assert judge(wrong, root="/image").status is Status.SKIPPED
