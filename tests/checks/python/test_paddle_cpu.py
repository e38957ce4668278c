"""paddle-cpu: on x86-64 the Paddle for CPUs was built with MKL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.python.paddle_cpu import paddle_cpu
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

# As in the wheel of 3.3.1.
BUILT = "full_version     = '3.3.1'\nwith_mkl         = '{mkl}'\nwith_hml         = ''\n"


def paddle(mkl: str = "", place: str = "paddle/version/__init__.py", **more: Any) -> Asked:
    """The answer where Paddle 3.3.1 is installed that was built so."""
    files: dict[str, Content] = package_files("paddlepaddle", "3.3.1")
    if mkl:
        files[f"{SITE}/{place}"] = BUILT.format(mkl=mkl)
    files.update(more.pop("files", {}))
    return ask(paddle_cpu, fake_host(files, **more))


@pytest.mark.parametrize("place", ["paddle/version/__init__.py", "paddle/version.py"])
def test_quiet_with_mkl(place: str) -> None:
    told = paddle("ON", place)
    assert (told.status, told.codes, told.facts["with_mkl"]) == (Status.OK, [], "ON")


def test_openblas() -> None:
    (finding,) = paddle("OFF").findings
    assert (finding.code, finding.severity) == ("paddle-cpu.openblas", Severity.INFO)
    assert "3.3.1" in finding.message and finding.fix is not None
    assert f"{SITE}/paddle/version/__init__.py: with_mkl = OFF" in finding.evidence


def test_only_on_x86_64() -> None:
    assert paddle("OFF", machine="aarch64").status is Status.SKIPPED


def test_skipped_without_it_and_beside_npus() -> None:
    assert ask(paddle_cpu, fake_host(package_files("paddlepaddle-gpu", "3.3.1"))).status is Status.SKIPPED
    assert paddle("OFF", files=package_files("paddle-custom-npu", "3.3.1")).status is Status.SKIPPED


def test_cannot_tell_is_never_needed() -> None:
    told = paddle()
    assert (told.status, told.advisory) == (Status.UNKNOWN, True)
    assert paddle(files={f"{SITE}/paddle/version/__init__.py": unreadable()}).status is Status.UNKNOWN


def scene(tmp: Path) -> Iterator[Asked]:
    """The code, and each ending."""
    paddle = package_files("paddlepaddle", "3.3.1")
    built = {f"{SITE}/paddle/version/__init__.py": "with_mkl = 'OFF'\n"}
    yield ask(paddle_cpu, fake_host())
    yield ask(paddle_cpu, fake_host(paddle))
    yield ask(paddle_cpu, fake_host(paddle, machine="aarch64"))
    yield ask(paddle_cpu, fake_host({**paddle, **built}))
