"""Ascend NPUs and NVIDIA GPUs: PCI ids, device nodes, driver marks. No tool is run."""

from __future__ import annotations

import re
import stat
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _
from npudoctor.host.devices.cann_info import parse_settings, read_text
from npudoctor.host.fs.files import Files

HUAWEI, NVIDIA = "0x19e5", "0x10de"
PCI = "/sys/bus/pci/devices"

# Device ids of Huawei's NPUs. d801, d802 and d806 are documented; the others are general knowledge.
# A newer one, not in this list, is known by its class.
MODELS = {
    "0xd100": "Ascend 310",
    "0xd500": "Ascend 310P",
    "0xd801": "Ascend 910A",
    "0xd802": "Ascend 910B",
    "0xd803": "Ascend 910_93",
    "0xd806": "Ascend 950",
}
_NPU_NODE = pattern(r"v?davinci\d+\Z")
_GPU_NODE = pattern(r"nvidia\d+\Z")
_ACCELERATOR = pattern(r"0x1200")  # "Processing accelerators"
_DISPLAY = pattern(r"0x03(00|02)")
VM_DRIVER = "vfio-pci"  # the kernel's driver of a card that is handed to a virtual machine


@dataclass(frozen=True)
class Card:
    """One PCI function. `bound`: the kernel's driver of it, None when there is none."""

    address: str
    device: str
    kind: str
    driver: Optional[str]


@dataclass(frozen=True)
class Accelerators:
    """What of one kind ("npu" or "gpu") is here.

    `waiting`: cards that a driver of this machine could serve, not handed to a virtual machine.
    `unread`: why the PCI bus could not be looked at.
    """

    kind: str
    nodes: tuple[str, ...]
    cards: tuple[str, ...]
    models: tuple[str, ...]
    driver: Optional[str]
    kernel_drivers: tuple[str, ...] = ()
    available_cards: tuple[str, ...] = ()
    unread: Optional[str] = None

    @property
    def is_usable(self) -> bool:
        """Whether a job could open one: its device node is here."""
        return bool(self.nodes)

    @property
    def evidence(self) -> tuple[str, ...]:
        """What was seen, for a report; of what there is none, there is no line."""
        lines = (
            (_("device nodes: {nodes}"), "nodes", ", ".join(self.nodes)),
            (_("on the PCI bus: {cards}"), "cards", self.unread or ", ".join(self.cards)),
            (_("kernel driver in use: {drivers}"), "drivers", ", ".join(self.kernel_drivers)),
            (_("installed driver: {driver}"), "driver", self.driver),
        )
        return tuple(template.format(**{name: value}) for template, name, value in lines if value)


def find_accelerators(kind: str, files: Files) -> Accelerators:
    """The Ascend NPUs ("npu") or NVIDIA GPUs ("gpu") that are here; CannotTell when /dev cannot be listed."""
    if kind == "npu":
        vendor, brand, node, model_by_id = HUAWEI, "Ascend", _NPU_NODE, MODELS
        driver = parse_settings(read_text(files, "/usr/local/Ascend/driver/version.info")).get("version")
    else:
        vendor, brand, node, model_by_id = NVIDIA, "NVIDIA", _GPU_NODE, {}
        driver = _first_line(files, "/proc/driver/nvidia/version")
    nodes: list[str] = []
    for name in files.names("/dev"):
        entry = files.lstat(f"/dev/{name}") if node.match(name) else None
        if entry is not None and stat.S_ISCHR(entry.mode):
            nodes.append(name)
    nodes.sort(key=lambda name: int(re.sub(r"\D", "", name)))
    cards: list[Card] = []
    unread = None
    try:
        for address in files.names(PCI):
            folder = f"{PCI}/{address}"
            if _first_line(files, f"{folder}/vendor") != vendor:
                continue
            driver_folder = files.real(f"{folder}/driver")
            card = Card(
                address,
                _first_line(files, f"{folder}/device") or "",
                _first_line(files, f"{folder}/class") or "",
                driver_folder.rsplit("/", 1)[-1] if driver_folder else None,
            )
            if card.device in model_by_id or (_ACCELERATOR if kind == "npu" else _DISPLAY).match(card.kind):
                cards.append(card)
    except CannotTell as error:
        cards, unread = [], error.reason  # the nodes decide; the bus only explains
    return Accelerators(
        kind,
        tuple(f"/dev/{name}" for name in nodes),
        tuple(card.address for card in cards),
        tuple(dict.fromkeys(model_by_id.get(card.device, f"{brand} {card.device}") for card in cards)),
        driver,
        tuple(dict.fromkeys(card.driver for card in cards if card.driver)),
        tuple(card.address for card in cards if card.driver != VM_DRIVER),
        unread,
    )


def _first_line(files: Files, path: str) -> Optional[str]:
    lines = read_text(files, path, 4096).strip().splitlines()
    return lines[0].strip() if lines else None
