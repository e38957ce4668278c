"""Machines on which torch-npu says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.checks.python.torch_npu import torch_npu
from npudoctor.testing import Asked, ask, fake_host

from ..checks.python.stack_machine import cann, installed, site  # noqa: TID252
from ..checks.python.test_torch_autoload import WITHOUT_CANN, judge  # noqa: TID252
from ..checks.python.test_torch_npu import ROW, beside  # noqa: TID252
from .library_path import HEALTHY

PIN = "Requires-Dist: torch==2.7.1"


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    yield ask(torch_npu, fake_host())
    yield beside("2.7.1", "2.8.0", "", PIN)
    yield beside("2.1.0.post12", "2.2.0")
    yield beside("2.7.1")
    yield judge(WITHOUT_CANN)
    yield judge(HEALTHY)
    for adapter, version in (
        ("2.9.0", "8.1.RC1"),
        ("2.7.1.post6", "9.0.0"),
        ("2.14.0", "9.1.0"),
        ("2.1.0", "10.0.0"),
    ):
        yield beside(adapter, adapter[:5], version)
    yield beside("2.7.1", "2.7.1", "eight")
    yield ask(torch_npu, fake_host({**installed(torch_npu="2.7.1", torch="2.7.1"), **cann(None)}))
    forbidden = ROW.format(cann="8.3.RC1") + "compatible = false\n"
    yield beside("2.7.1", "2.7.1", "8.3.RC1", knowledge=site(tmp / "forbidden", forbidden))
    for number, wrong in enumerate(
        (
            forbidden.replace("false", "1"),
            ROW.replace("source", "sauce"),
            ROW.replace('source = "ours"', ""),
            ROW.replace('"2.7.1"', "2"),
            ROW.replace("torch_npu.cann", "torch_npu.can"),
            ROW.replace("torch_npu.cann", "torch"),
            "[torch_npu]\ncann = 1\n",
        )
    ):
        yield beside("2.7.1", "2.7.1", "8.3.RC1", knowledge=site(tmp / f"site{number}", wrong))
