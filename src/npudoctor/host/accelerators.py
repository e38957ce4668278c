"""Ascend NPUs and NVIDIA GPUs: PCI ids, device nodes, driver marks. No tool is run."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from typing import Optional

from npudoctor.host.errors import CannotTell
from npudoctor.host.files import Files

HUAWEI, NVIDIA = "0x19e5", "0x10de"

# Device ids of processing accelerators. d801, d802 and d806 are documented; the others are
# general knowledge and only name the model, they decide nothing.
MODELS = {
    "0xd100": "Ascend 310",
    "0xd500": "Ascend 310P",
    "0xd801": "Ascend 910A",
    "0xd802": "Ascend 910B",
    "0xd803": "Ascend 910_93",
    "0xd806": "Ascend 950",
}
_NPU_NODE = re.compile(r"v?davinci\d+\Z")
_GPU_NODE = re.compile(r"nvidia\d+\Z")
_DISPLAY = re.compile(r"0x03(00|02)")


@dataclass(frozen=True)
class Accelerators:
    """What of one kind ("npu" or "gpu") is here."""

    kind: str
    nodes: tuple[str, ...]
    cards: tuple[str, ...]
    models: tuple[str, ...]
    driver: Optional[str]

    @property
    def usable(self) -> bool:
        """Whether a job could open one: its device node is here."""
        return bool(self.nodes)

    @property
    def evidence(self) -> tuple[str, ...]:
        """What was seen, for a report."""
        told = [f"device nodes: {', '.join(self.nodes) or '-'}"]
        told.append(f"PCI: {', '.join(self.cards) or '-'}")
        told.append(f"driver: {self.driver or '-'}")
        return tuple(told)


def find_npus(files: Files) -> Accelerators:
    """The Ascend NPUs of this machine; CannotTell when /dev cannot be listed."""
    cards = [card for card in _pci(files) if card[1] == HUAWEI and card[2] in MODELS]
    driver = _first_line(files, "/usr/local/Ascend/driver/version.info")
    return _found("npu", files, _NPU_NODE, cards, driver)


def find_gpus(files: Files) -> Accelerators:
    """The NVIDIA GPUs of this machine; CannotTell when /dev cannot be listed."""
    cards = [card for card in _pci(files) if card[1] == NVIDIA and _DISPLAY.match(card[3])]
    return _found("gpu", files, _GPU_NODE, cards, _first_line(files, "/proc/driver/nvidia/version"))


def _found(
    kind: str,
    files: Files,
    node: re.Pattern[str],
    cards: list[tuple[str, str, str, str]],
    driver: Optional[str],
) -> Accelerators:
    nodes = [name for name in files.names("/dev") if node.match(name) and _is_device(files, name)]
    models = [MODELS.get(card[2], f"NVIDIA {card[2]}") for card in cards]
    return Accelerators(
        kind,
        tuple(f"/dev/{name}" for name in nodes),
        tuple(card[0] for card in cards),
        tuple(dict.fromkeys(models)),
        driver,
    )


def _is_device(files: Files, name: str) -> bool:
    entry = files.lstat(f"/dev/{name}")
    return entry is not None and stat.S_ISCHR(entry.mode)


def _pci(files: Files) -> list[tuple[str, str, str, str]]:
    """Address, vendor, device and class of every PCI function; what cannot be read is left out."""
    found = []
    for address in files.names("/sys/bus/pci/devices"):
        try:
            told = [
                (files.text(f"/sys/bus/pci/devices/{address}/{name}", 64) or "").strip()
                for name in ("vendor", "device", "class")
            ]
        except CannotTell:
            continue
        found.append((address, told[0], told[1], told[2]))
    return found


def _first_line(files: Files, path: str) -> Optional[str]:
    try:
        text = files.text(path, 4096)
    except CannotTell:
        return None
    return text.splitlines()[0].strip() if text and text.strip() else None
