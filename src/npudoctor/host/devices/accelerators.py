"""Finds Ascend NPUs and NVIDIA GPUs by device nodes, PCI ids and files of their drivers; runs no tool."""

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

HUAWEI, NVIDIA = "0x19e5", "0x10de"  # vendor ids of the PCI-SIG
PCI = "/sys/bus/pci/devices"

# Device ids of Huawei's NPUs. d801, d802 and d806 are documented; the others are general knowledge.
# A newer card, which is not in this list, is recognised by its PCI class.
MODELS = {
    "0xd100": "Ascend 310",
    "0xd500": "Ascend 310P",
    "0xd801": "Ascend 910A",
    "0xd802": "Ascend 910B",
    "0xd803": "Ascend 910_93",
    "0xd806": "Ascend 950",
}
# vdavinci: a slice of an NPU that is shared between virtual machines.
_NPU_NODE = pattern(r"v?davinci\d+\Z")
_GPU_NODE = pattern(r"nvidia\d+\Z")
_ACCELERATOR = pattern(r"0x1200")  # PCI class "processing accelerators"
_DISPLAY = pattern(r"0x03(00|02)")  # PCI classes "VGA controller" and "3D controller": GPUs have either
VM_DRIVER = "vfio-pci"  # the kernel's driver of a card that is passed through to a virtual machine


@dataclass(frozen=True)
class Card:
    """One PCI function. `kind`: its PCI class. `driver`: the name of its kernel driver, None without one."""

    address: str
    device: str
    kind: str
    driver: Optional[str]


@dataclass(frozen=True)
class Accelerators:
    """The accelerators of one kind ("npu" or "gpu") on this machine.

    - `nodes`: paths of their device nodes.
    - `cards`: PCI addresses.
    - `models`: names of models, or a device id for an unknown one.
    - `driver`: what the installed driver's version file says, None without one.
    - `kernel_drivers`: names of the kernel drivers that the cards are bound to.
    - `available_cards`: those that are not passed through to a virtual machine.
    - `unread`: why the PCI bus could not be read, None if it was.
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
        """Whether a job could open one: there is a device node."""
        return bool(self.nodes)

    @property
    def evidence(self) -> tuple[str, ...]:
        """Lines of evidence for a report, one for each fact that is known."""
        lines = (
            (_("device nodes: {nodes}"), "nodes", ", ".join(self.nodes)),
            (_("on the PCI bus: {cards}"), "cards", self.unread or ", ".join(self.cards)),
            (_("kernel driver in use: {drivers}"), "drivers", ", ".join(self.kernel_drivers)),
            (_("installed driver: {driver}"), "driver", self.driver),
        )
        return tuple(template.format(**{name: value}) for template, name, value in lines if value)


def find_accelerators(kind: str, files: Files) -> Accelerators:
    """Find the Ascend NPUs ("npu") or NVIDIA GPUs ("gpu"); CannotTell if /dev cannot be listed."""
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
    # By number: davinci2 before davinci10.
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
        cards, unread = [], error.reason  # device nodes decide what is usable; the bus is only evidence
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
