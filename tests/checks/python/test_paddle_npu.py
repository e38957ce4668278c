"""paddle-npu: Paddle and CANN are those that its plug-in for NPUs goes with."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.checks.python.stack_machine import cann, site

from npudoctor import Severity, Status
from npudoctor.checks.python.paddle_npu import paddle_npu
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable

ROW = (
    '[[paddle_npu.cann]]\nrelease = "3.0.0"\nplugin = "paddle-custom-npu"\ncann = "{cann}"\n'
    'chip = "910B"\nsource = "ours"\nas_of = "2026-12"\n'
)


def beside(
    plugin: str, paddle: str = "", cann_version: str = "", name: str = "paddlepaddle", **more: Any
) -> Asked:
    """The answer where these are installed."""
    files: dict[str, Content] = package_files("paddle-custom-npu", plugin)
    files.update(package_files(name, paddle) if paddle else {})
    files.update(cann(cann_version) if cann_version else {})
    return ask(paddle_npu, fake_host(files, **more))


@pytest.mark.parametrize(
    ("plugin", "paddle", "version"),
    [
        ("3.0.0", "3.0.0", "8.0.RC1"),
        ("3.0.0", "3.0.1", "8.0.RC2"),
        ("0.0.0", "3.0.0.dev20241010", "8.0.RC1"),
        ("2.6.1", "2.6.1", "7.0.0"),
    ],
)
def test_quiet_when_they_suit(plugin: str, paddle: str, version: str) -> None:
    told = beside(plugin, paddle, version)
    assert (told.status, told.codes) == (Status.OK, [])


def test_skipped_without_cann() -> None:
    told = beside("3.0.0", "3.0.0", "")
    assert (told.status, told.codes) == (Status.SKIPPED, [])
    assert "not compared" in told.reason


def test_without_paddle() -> None:
    (finding,) = beside("3.0.0").findings
    assert (finding.code, finding.severity) == ("paddle-npu.paddle-missing", Severity.ERROR)
    assert finding.fix is not None
    assert finding.fix.commands == ("/usr/bin/python3 -m pip install paddlepaddle==3.0.0",)


def test_the_build_for_gpus() -> None:
    (finding,) = beside("3.0.0", "3.0.0", name="paddlepaddle-gpu").findings
    assert (finding.code, finding.severity) == ("paddle-npu.gpu-build", Severity.WARNING)
    assert "paddlepaddle-gpu 3.0.0" in finding.message
    assert finding.fix is not None
    assert [line.split("-m pip ")[1] for line in finding.fix.commands] == [
        "download --no-deps --dest npudoctor-wheels paddlepaddle==3.0.0",
        "uninstall paddlepaddle-gpu",
        "install --force-reinstall --no-deps --no-index --find-links npudoctor-wheels paddlepaddle==3.0.0",
    ]


@pytest.mark.parametrize(
    ("plugin", "wanted"),
    [
        ("0.0.0", "paddlepaddle"),
        ("3.1.0.dev20250601", "'paddlepaddle==3.1.*'"),
        ("2.6.1", "paddlepaddle==2.6.1"),
    ],
)
def test_the_paddle_of_the_plug_ins_release(plugin: str, wanted: str) -> None:
    (finding,) = beside(plugin).findings
    assert finding.fix is not None and finding.fix.commands[0].endswith(f"install {wanted}")


def test_another_release_is_a_note() -> None:
    (finding,) = beside("3.0.0", "3.2.0").findings
    assert (finding.code, finding.severity) == ("paddle-npu.other-release", Severity.INFO)


def test_a_newer_cann_is_a_note() -> None:
    (finding,) = beside("3.0.0", "3.0.0", "8.3.RC1").findings
    assert (finding.code, finding.severity) == ("paddle-npu.newer-than-table", Severity.INFO)


def test_an_older_cann() -> None:
    (finding,) = beside("3.0.0", "3.0.0", "7.0.0").findings
    assert (finding.code, finding.severity) == ("paddle-npu.cann-not-listed", Severity.WARNING)
    assert "8.0.RC1" in finding.message


def test_the_rows_of_a_site(tmp_path: Path) -> None:
    allowed = site(tmp_path / "a", ROW.format(cann="7.0.0"))
    assert beside("3.0.0", "3.0.0", "7.0.0", knowledge=allowed).codes == []
    assert beside("3.1.0", "3.1.0", "7.0.0", knowledge=allowed).codes == ["paddle-npu.cann-not-listed"]
    forbidden = site(tmp_path / "b", ROW.format(cann="8.0.RC1") + "compatible = false\n")
    assert beside("3.0.0", "3.0.0", "8.0.RC1", knowledge=forbidden).codes == ["paddle-npu.cann-incompatible"]
    broken = site(tmp_path / "c", "x = [")
    assert beside("3.0.0", "3.0.0", "8.0.RC1", knowledge=broken).codes == ["paddle-npu.site-table"]


def test_skipped_without_it() -> None:
    files = {**package_files("paddlepaddle", "3.0.0"), **cann("8.0.RC1")}
    assert ask(paddle_npu, fake_host(files)).status is Status.SKIPPED


def test_cannot_tell() -> None:
    assert beside("three", "3.0.0").status is Status.UNKNOWN
    assert beside("3.0.0", "three").status is Status.UNKNOWN
    files: dict[str, Content] = {f"{SITE}/paddlepaddle-3.0.0.dist-info/METADATA": unreadable(errno.EIO)}
    files.update(package_files("paddle-custom-npu", "3.0.0"))
    assert ask(paddle_npu, fake_host(files)).status is Status.UNKNOWN


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, each ending."""
    yield ask(paddle_npu, fake_host())
    yield beside("3.0.0")
    yield beside("3.0.0", "3.2.0", "8.3.RC1", name="paddlepaddle-gpu")
    yield beside("3.0.0", "3.0.0", "7.0.0")
    forbidden = site(tmp / "b", ROW.format(cann="8.0.RC1") + "compatible = false\n")
    yield beside("3.0.0", "3.0.0", "8.0.RC1", knowledge=forbidden)
    yield beside("3.0.0", "3.0.0", "8.0.RC1", knowledge=site(tmp / "c", "x = ["))
