"""Accelerators as /dev, the PCI bus and the driver's own files show them."""

from __future__ import annotations

import errno
from collections.abc import Mapping

import pytest

from npudoctor.host import CannotTell
from npudoctor.host.devices.accelerators import find_accelerators
from npudoctor.host.fs.files import Files
from npudoctor.testing import Content, MemoryDisk, device, folder, link, unreadable

BASE: dict[str, Content] = {"/dev": folder(), "/sys/bus/pci/devices": folder()}
VERSION_INFO = (
    "Version=25.0.rc1.2\nascendhal_version=7.35.23\naicpu_version=1.0\nInnerversion=V100R001C21SPC002B230\n"
    "compatible_version_fw=[7.0.0,7.7.99]\npackage_version=25.0.rc1.2\n"
)


def on(files: Mapping[str, Content]) -> Files:
    return Files(MemoryDisk({**BASE, **files}))


def card(address: str, vendor: str, model: str, kind: str, driver: str = "") -> dict[str, Content]:
    real = f"/sys/devices/pci0000:c0/{address}"
    files: dict[str, Content] = {
        f"/sys/bus/pci/devices/{address}": link(f"../../../devices/pci0000:c0/{address}"),
        f"{real}/vendor": f"{vendor}\n",
        f"{real}/device": f"{model}\n",
        f"{real}/class": f"{kind}\n",
    }
    if driver:
        files[f"/sys/bus/pci/drivers/{driver}"] = folder()
        files[f"{real}/driver"] = link(f"../../../bus/pci/drivers/{driver}")
    return files


def test_an_ascend_node() -> None:
    names = [*(f"davinci{number}" for number in (0, 1, 2, 10)), "davinci_manager", "devmm_svm", "hisi_hdc"]
    found = find_accelerators(
        "npu",
        on(
            {
                **{f"/dev/{name}": device() for name in names},
                **card("0000:c1:00.0", "0x19e5", "0xd802", "0x120000", "devdrv_device_driver"),
                **card("0000:c2:00.0", "0x19e5", "0xd802", "0x120000", "devdrv_device_driver"),
                **card("0000:7d:00.0", "0x19e5", "0xa222", "0x020000", "hns3"),
                "/usr/local/Ascend/driver/version.info": VERSION_INFO,
            }
        ),
    )
    assert found.is_usable
    assert found.nodes == ("/dev/davinci0", "/dev/davinci1", "/dev/davinci2", "/dev/davinci10")
    assert found.cards == found.available_cards == ("0000:c1:00.0", "0000:c2:00.0")
    assert found.models == ("Ascend 910B",)
    assert found.kernel_drivers == ("devdrv_device_driver",)
    assert found.driver == "25.0.rc1.2"


def test_a_virtual_npu() -> None:
    assert find_accelerators("npu", on({"/dev/vdavinci100": device()})).nodes == ("/dev/vdavinci100",)


def test_an_nvidia_node() -> None:
    names = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-modeset", "nvidia-caps")
    files: dict[str, Content] = {f"/dev/{name}": device() for name in names}
    files["/proc/driver/nvidia/version"] = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.00.01\nGCC version: 12\n"
    )
    files.update(card("0000:81:00.0", "0x10de", "0x2335", "0x030200", "nvidia"))
    files.update(card("0000:81:00.1", "0x10de", "0x10f7", "0x040300", "snd_hda_intel"))
    found = find_accelerators("gpu", on(files))
    assert found.nodes == ("/dev/nvidia0", "/dev/nvidia1")
    assert found.cards == ("0000:81:00.0",)
    assert found.driver == "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.00.01"
    assert "kernel driver in use: nvidia" in found.evidence
    assert not find_accelerators("npu", on(files)).is_usable


@pytest.mark.parametrize("content", ["", folder(), link("/dev/null")])
def test_only_a_character_device_is_a_node(content: Content) -> None:
    assert not find_accelerators("npu", on({"/dev/davinci0": content})).is_usable


@pytest.mark.parametrize("name", ["davinci", "davinci0p", "xdavinci0", "davinci_manager", "davinci0.old"])
def test_other_names_are_no_node(name: str) -> None:
    assert not find_accelerators("npu", on({f"/dev/{name}": device()})).is_usable


def test_a_card_handed_on_does_not_wait_for_a_driver() -> None:
    files = {
        **card("0000:c1:00.0", "0x19e5", "0xd801", "0x120000", "vfio-pci"),
        **card("0000:c2:00.0", "0x19e5", "0xd801", "0x120000"),
    }
    found = find_accelerators("npu", on(files))
    assert found.cards == ("0000:c1:00.0", "0000:c2:00.0")
    assert found.available_cards == ("0000:c2:00.0",)
    assert found.kernel_drivers == ("vfio-pci",)


def test_a_function_that_vanishes_or_is_closed_is_left_out() -> None:
    files = {
        "/sys/bus/pci/devices/0000:01:00.0": link("../../../devices/gone"),
        "/sys/bus/pci/devices/0000:02:00.0/vendor": unreadable(errno.EIO),
        **card("0000:c2:00.0", "0x19e5", "0xd801", "0x120000"),
    }
    assert find_accelerators("npu", on(files)).cards == ("0000:c2:00.0",)


def test_without_dev_nobody_can_tell() -> None:
    with pytest.raises(CannotTell):
        find_accelerators("npu", on({"/dev": unreadable(errno.EACCES)}))


def test_without_a_pci_bus_the_nodes_are_seen() -> None:
    files: dict[str, Content] = {"/dev/davinci0": device(), "/sys/bus/pci/devices": unreadable(errno.EACCES)}
    found = find_accelerators("npu", on(files))
    assert found.is_usable
    assert found.unread is not None
    assert any("Permission denied" in line for line in found.evidence)


def test_a_closed_driver_file_is_a_driver_unknown() -> None:
    found = find_accelerators("npu", on({"/usr/local/Ascend/driver/version.info": unreadable(errno.EACCES)}))
    assert found.driver is None
    assert found.evidence == ()  # no lines that say nothing
