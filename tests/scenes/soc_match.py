"""Machines on which soc-match says all that it can say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from npudoctor.checks.cann.soc_match import KERNELS, soc_match
from npudoctor.testing import Asked, Content, device, folder

from .cann_trees import LATEST, healthy, later
from .driver_machine import asked

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
