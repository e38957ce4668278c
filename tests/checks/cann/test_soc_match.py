"""soc-match: the installed kernels of CANN are for the chip that is here."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.checks.cann.cann_trees import CANN, LATEST, TOOLKIT, healthy, later
from tests.checks.cann.driver_machine import asked

from npudoctor import Severity, Status
from npudoctor.checks.cann.soc_match import KERNELS, soc_match
from npudoctor.host import Host, Options
from npudoctor.testing import Asked, Content, ask, device, folder, unreadable

TREE = healthy()


def card(model: str, address: str = "0000:81:00.0") -> dict[str, Content]:
    """One NPU on the PCI bus."""
    place = f"/sys/bus/pci/devices/{address}"
    return {f"{place}/vendor": "0x19e5\n", f"{place}/device": f"{model}\n", f"{place}/class": "0x120000\n"}


def kernels(*chips: str) -> dict[str, Content]:
    """The folders of a kernels package, as CANN 8.1.RC1 has them."""
    place = f"{LATEST}/{KERNELS}".replace("latest", "8.1.RC1")
    return {f"{place}/{part}{chip}": folder() for chip in chips for part in ("", "config/")}


def told(*parts: dict[str, Content], **more: Any) -> Asked:
    return asked(soc_match, *parts, **more)


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told(TREE)
    yield told(TREE, {"/dev/davinci0": device()})
    yield told(card("0xd802"))
    yield told(TREE, card("0xd802"))
    yield told(TREE, card("0xd806"), kernels("ascend910b"))
    yield told(TREE, card("0xd802"), kernels("ascend310p"))
    yield told(later(), card("0xd500"))


RECORD = f"{CANN}-8.5.0/aarch64-linux/ascend_ops_install.info"


@pytest.mark.parametrize(
    ("model", "chip"),
    [
        ("0xd801", "ascend910"),
        ("0xd802", "ascend910b"),
        ("0xd803", "ascend910_93"),
        ("0xd500", "ascend310p"),
        ("0xd100", "ascend310"),
    ],
)
def test_quiet_with_the_chips_own_kernels(model: str, chip: str) -> None:
    for chips in ((chip,), (chip, "ascend610")):
        answer = told(TREE, card(model), kernels(*chips))
        assert (answer.status, answer.codes) == (Status.OK, [])
        assert answer.facts["kernels"] == sorted(chips)


@pytest.mark.parametrize(("name", "model"), [("910b", "0xd802"), ("A3", "0xd803"), ("310p", "0xd500")])
def test_quiet_with_the_chips_own_package(name: str, model: str) -> None:
    files: dict[str, Content] = {RECORD: f"package_name=Ascend-cann-{name}-ops\nversion=8.5.0\n"}
    assert told(later(), files, card(model)).codes == []


@pytest.mark.parametrize(
    ("model", "code", "severity"),
    [
        ("0xd802", "soc-match.other-chip", Severity.WARNING),
        ("0xd801", "soc-match.other-chip", Severity.WARNING),
        ("0xd803", "soc-match.perhaps-other-chip", Severity.INFO),
    ],
)
def test_the_kernels_of_another_chip(model: str, code: str, severity: Severity) -> None:
    (finding,) = told(TREE, card(model), kernels("ascend310p")).findings
    assert (finding.code, finding.severity) == (code, severity)
    assert "ascend310p" in finding.message


def test_which_package_to_install() -> None:
    (finding,) = told(TREE, card("0xd802"), kernels("ascend310p")).findings
    assert "Ascend-cann-kernels-910b_8.1.RC1_linux-aarch64.run" in finding.message
    (finding,) = told(later(), card("0xd801")).findings
    assert "Ascend-cann-910-ops_8.5.0_linux-aarch64.run" in finding.message
    assert "ascend910b" in finding.message


def test_two_kinds_of_cards() -> None:
    both = {**card("0xd802"), **card("0xd801", "0000:82:00.0")}
    assert told(TREE, both, kernels("ascend910b")).codes == ["soc-match.other-chip"]
    assert told(TREE, both, kernels("ascend910b", "ascend910")).codes == []


def test_skipped(tmp_path: Path) -> None:
    assert told(TREE, kernels("ascend910b")).status is Status.SKIPPED
    assert told(card("0xd802")).status is Status.SKIPPED
    assert told(TREE, card("0xd802")).status is Status.SKIPPED  # cann-install tells of it
    answer = ask(soc_match, Host(Options(root=str(tmp_path))))
    assert (answer.status, answer.reason) == (Status.SKIPPED, "an image is not running")


def test_cannot_tell() -> None:
    for parts in (({"/dev/davinci0": device()},), (card("0xd806"), kernels("ascend910b"))):
        answer = told(TREE, *parts)
        assert (answer.status, answer.advisory, answer.codes) == (Status.UNKNOWN, True, [])
    closed: dict[str, Content] = {f"{TOOLKIT}/8.1.RC1/{KERNELS}": unreadable(errno.EACCES)}
    assert told(TREE, card("0xd802"), closed).status is Status.UNKNOWN
    silent: dict[str, Content] = {RECORD: unreadable(errno.EIO)}
    assert told(later(), silent, card("0xd802")).status is not Status.PROBLEM
