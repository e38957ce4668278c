"""gpu-visibility: CUDA_VISIBLE_DEVICES leaves the job the GPUs that are written there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
from tests.checks.gpu.test_gpu_busy import PYTHON, gpu

from npudoctor import Severity, Status
from npudoctor.checks.gpu.gpu_visibility import gpu_visibility
from npudoctor.facts.gpu.visible import RUNTIME, VisibleGpus, cuda_visible
from npudoctor.testing import Asked, ask, device, fake_host


def told(value: str, count: int = 2, *, answers: bool = True, **more: Any) -> Asked:
    """What it says of a shell with this value, on a machine with some GPUs: GPU-0a2b, GPU-1a2b, ..."""
    files: dict[str, Any] = {f"/dev/nvidia{number}": device() for number in range(count)}
    told_by_driver = json.dumps([gpu(number) for number in range(count)])
    commands: dict[Any, Any] = {PYTHON: told_by_driver} if answers else {}
    return ask(gpu_visibility, fake_host(files, variables={RUNTIME: value}, commands=commands, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told("0", 0)
    yield told("0,1")
    yield told("")
    yield told("7")
    yield told("1,1")
    yield told("0,7")
    yield told("MIG-1a2b")
    yield told("GPU-9")


UUID = "GPU-ff0bae66-956f-991f-c01b-16a90c224e58"


# What libcuda 580.159 made of each on a machine with one H100: how many devices, or the error of cuInit.
@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("0", 1),
        ("7", 0),
        ("-1", 0),
        ("0,7", 1),
        ("7,0", 0),
        ("0,0", None),
        ("0,-1", 1),
        ("GPU-bogus", 0),
        (UUID, 1),
        (UUID[:12], 1),
        ("GPU-f", 1),
        (UUID.upper(), 1),
        (f"{UUID},{UUID}", None),
        (" 0", 1),
        ("0 ", 1),
        ("0, 0", None),
        (" 0 , 7", 1),
        ("a", 0),
        ("0a", 1),
        ("0;1", 1),
        ("0x0", 1),
        ("00", 1),
        ("+0", 1),
        ("-0", 1),
        ("NoDevFiles", 0),
        ("none", 0),
        ("0,a", 1),
        ("0,,0", 1),
        (",0", 0),
        ("0,", 1),
        ("1e0", 0),
        ("0\t", 1),
        ("\n0", 1),
        ("０", 0),
    ],
)
def test_as_cuda_reads_it(value: str, count: Optional[int]) -> None:
    seen = cuda_visible(value, 1, [UUID])
    assert (None if seen.repeated else len(seen.ids)) == count


def test_parts_that_cannot_be_told() -> None:
    assert cuda_visible("0,MIG-1", 2) == VisibleGpus((0,), unknown="MIG-1")
    assert cuda_visible("GPU-1", 2) == VisibleGpus((), unknown="GPU-1")
    assert cuda_visible("GPU-", 2, ["GPU-0a", "GPU-1a"]) == VisibleGpus((), "GPU-")
    assert cuda_visible("9" * 5000, 2) == VisibleGpus((), "9" * 5000)


@pytest.mark.parametrize("value", ["0", "1", "0,1", "1,0", "GPU-1", "1,GPU-0", "0,1,", "0,-1"])
def test_quiet(value: str) -> None:
    asked = told(value)
    assert (asked.status, asked.codes) == (Status.OK, [])


@pytest.mark.parametrize(
    ("value", "code", "line"),
    [
        ("7", "gpu-visibility.none-left", "unset CUDA_VISIBLE_DEVICES"),
        ("all", "gpu-visibility.none-left", "unset CUDA_VISIBLE_DEVICES"),
        ("GPU-9", "gpu-visibility.none-left", "unset CUDA_VISIBLE_DEVICES"),
        ("1,1", "gpu-visibility.repeated", "export CUDA_VISIBLE_DEVICES=1"),
        ("GPU-0,0", "gpu-visibility.repeated", "export CUDA_VISIBLE_DEVICES=0"),
        ("0,1,2,3", "gpu-visibility.no-such-device", "export CUDA_VISIBLE_DEVICES=0,1"),
    ],
)
def test_speaks(value: str, code: str, line: str) -> None:
    (finding,) = told(value).findings
    assert finding.code == code and finding.fix is not None
    assert finding.fix.commands == (line,)
    assert finding.message.startswith(f"CUDA_VISIBLE_DEVICES={value} ")


@pytest.mark.parametrize("value", ["", " ", "-1", "NoDevFiles"])
def test_hidden_on_purpose(value: str) -> None:
    (finding,) = told(value).findings
    assert (finding.code, finding.severity) == ("gpu-visibility.hidden", Severity.INFO)
    (finding,) = told(value, expect="gpu").findings
    assert finding.weight is Severity.ERROR


def test_what_cannot_be_told() -> None:
    assert told("0", 0).status is Status.SKIPPED
    split = told("MIG-1a2b")
    assert (split.status, split.advisory) == (Status.UNKNOWN, True)
    assert told("GPU-1", answers=False).status is Status.UNKNOWN


def test_control_characters_are_not_printed() -> None:
    (finding,) = told("7\x1b[2J").findings
    assert "\x1b" not in finding.message + "".join(finding.evidence)
