"""accelerator: --expect against what is really here."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from npudoctor import Action, Status
from npudoctor.checks.host.accelerator import accelerator
from npudoctor.host import Options
from npudoctor.testing import Asked, Content, ask, device, fake_host, link, unreadable

NPU = {"/dev/davinci0": device(), "/dev/davinci1": device(), "/dev/davinci_manager": device()}
GPU = {"/dev/nvidia0": device(), "/dev/nvidiactl": device()}


def card(vendor: str, kind: str, model: str, bound: str = "") -> dict[str, Content]:
    """One PCI function as sysfs shows it: a link to its directory."""
    real = "/sys/devices/pci0000:80/0000:81:00.0"
    files: dict[str, Content] = {
        "/sys/bus/pci/devices/0000:81:00.0": link("../../../devices/pci0000:80/0000:81:00.0"),
        f"{real}/vendor": f"{vendor}\n",
        f"{real}/device": f"{model}\n",
        f"{real}/class": f"{kind}\n",
    }
    if bound:
        files[f"/sys/bus/pci/drivers/{bound}/uevent"] = ""
        files[f"{real}/driver"] = link(f"../../../bus/pci/drivers/{bound}")
    return files


NPU_CARD = card("0x19e5", "0x120000", "0xd802")


@pytest.mark.parametrize(
    ("files", "expect"),
    [(NPU, "npu"), (NPU, "auto"), (GPU, "gpu"), (GPU, "auto"), ({}, "none"), (NPU_CARD, "none")],
)
def test_found_or_nothing_expected(files: Mapping[str, Content], expect: str) -> None:
    told = ask(accelerator, fake_host(files, expect=expect))
    assert (told.status, told.findings) == (Status.OK, ())


def test_the_facts_name_what_is_here() -> None:
    driver = {"/usr/local/Ascend/driver/version.info": "Version=25.0.1\nascendhal_version=7.35.23\n"}
    facts = ask(accelerator, fake_host({**NPU, **NPU_CARD, **driver}, expect="npu")).facts
    assert facts["npu"] == {
        "nodes": ["/dev/davinci0", "/dev/davinci1"],
        "pci": ["0000:81:00.0"],
        "models": ["Ascend 910B"],
        "driver": "25.0.1",
    }


def test_nothing_found_and_nothing_said_is_unknown() -> None:
    told = ask(accelerator, fake_host())
    assert told.status is Status.UNKNOWN
    assert "--expect" in told.reason
    assert not told.advisory, "needed for a verdict"


@pytest.mark.parametrize(("expect", "other"), [("npu", GPU), ("gpu", NPU), ("npu", {}), ("gpu", {})])
def test_expected_and_missing(expect: str, other: Mapping[str, Content]) -> None:
    (finding,) = ask(accelerator, fake_host(other, expect=expect)).findings
    assert finding.code == "accelerator.missing"
    assert finding.action is Action.ISOLATE
    assert "no such hardware on the PCI bus" in finding.message


@pytest.mark.parametrize("expect", ["npu", "auto"])
def test_hardware_without_device_nodes(expect: str) -> None:
    told = ask(accelerator, fake_host(NPU_CARD, expect=expect))
    assert told.status is Status.PROBLEM
    (finding,) = told.findings
    assert "its driver is not installed or not loaded" in finding.message
    assert "Ascend 910B" in finding.message
    assert "on the PCI bus: 0000:81:00.0" in finding.evidence


def test_a_gpu_held_by_another_kernel_driver() -> None:
    files = card("0x10de", "0x030000", "0x2204", bound="nouveau")
    (finding,) = ask(accelerator, fake_host(files)).findings
    assert "kernel driver in use: nouveau" in finding.evidence


def test_an_npu_newer_than_our_list_is_known_by_its_class() -> None:
    (finding,) = ask(accelerator, fake_host(card("0x19e5", "0x120000", "0xd9ff"))).findings
    assert "Ascend 0xd9ff" in finding.message


def test_other_things_of_the_same_vendors_are_no_accelerators() -> None:
    for files in (card("0x19e5", "0x020000", "0x0222"), card("0x10de", "0x040300", "0x10f0")):
        assert ask(accelerator, fake_host(files)).status is Status.UNKNOWN


def test_in_a_container_the_nodes_decide() -> None:
    files = {**NPU_CARD, "/.dockerenv": ""}
    assert ask(accelerator, fake_host(files)).status is Status.UNKNOWN
    (finding,) = ask(accelerator, fake_host(files, expect="npu")).findings
    assert "was passed to this container" in finding.message
    assert ask(accelerator, fake_host({**files, **NPU}, expect="npu")).status is Status.OK


def test_a_card_handed_to_a_virtual_machine_is_not_ours() -> None:
    files = card("0x19e5", "0x120000", "0xd802", bound="vfio-pci")
    assert ask(accelerator, fake_host(files)).status is Status.UNKNOWN
    (finding,) = ask(accelerator, fake_host(files, expect="npu")).findings
    assert "vfio-pci" in finding.message


def test_a_plain_file_is_no_device_node() -> None:
    assert ask(accelerator, fake_host({"/dev/davinci0": ""}, expect="npu")).codes == ["accelerator.missing"]


def test_cannot_tell_when_dev_cannot_be_listed() -> None:
    told = ask(accelerator, fake_host({"/dev": unreadable(errno.EACCES)}, expect="npu"))
    assert told.status is Status.UNKNOWN


def test_an_unreadable_pci_bus_does_not_hide_the_nodes() -> None:
    bus: dict[str, Content] = {"/sys/bus/pci/devices": unreadable(errno.EACCES)}
    assert ask(accelerator, fake_host({**bus, **NPU})).status is Status.OK
    (finding,) = ask(accelerator, fake_host(bus, expect="npu")).findings
    assert "the PCI bus cannot be read" in finding.message
    assert finding.action is Action.CONFIG


def test_an_image_is_not_judged() -> None:
    told = ask(accelerator, fake_host(expect="npu", root="/srv/image"))
    assert told.status is Status.SKIPPED


def test_it_is_asked_under_every_scope_and_profile() -> None:
    assert accelerator.always


def test_a_container_without_one_is_told_what_to_ask_for() -> None:
    """All that is missing: the findings that would say the rest are folded under this one."""
    container: dict[str, Content] = {
        "/.dockerenv": "",
        "/dev/davinci_manager": device(),
        "/usr/local/dcmi": "",
    }
    (finding,) = ask(accelerator, fake_host(container, expect="npu")).findings
    assert finding.fix is not None and finding.fix.commands == ()
    _who, options = finding.fix.title.split(" add ")
    assert options.startswith("--device /dev/davinci0 --device /dev/devmm_svm --device /dev/hisi_hdc -v ")
    assert "/usr/local/Ascend/driver/lib64:/usr/local/Ascend/driver/lib64:ro" in options
    assert "/dev/davinci_manager" not in options and "dcmi" not in options
    (finding,) = ask(accelerator, fake_host(container, expect="gpu")).findings
    assert finding.fix is not None and finding.fix.title.endswith(" add --gpus all")
    (finding,) = ask(accelerator, fake_host(expect="npu")).findings
    assert finding.fix is not None and finding.fix.commands == ()


@pytest.mark.parametrize(
    ("count", "codes"), [(0, []), (1, []), (2, []), (3, ["accelerator.fewer"]), (8, ["accelerator.fewer"])]
)
def test_so_many_are_expected(count: int, codes: list[str]) -> None:
    asked = ask(accelerator, fake_host(NPU, expect="npu", options=Options(expect_count=count)))
    assert asked.codes == codes
    if codes:
        assert asked.findings[0].message == f"this machine shows 2 of the {count} expected NPUs"


def scene(tmp: Path) -> Iterator[Asked]:
    passed_on = card("0x19e5", "0x120000", "0xd802", bound="vfio-pci")
    bus: dict[str, Content] = {"/sys/bus/pci/devices": unreadable()}
    for files in ({}, NPU_CARD, passed_on, bus, {"/.dockerenv": ""}, {"/dev": unreadable()}):
        yield ask(accelerator, fake_host(files, expect="npu"))
    yield ask(accelerator, fake_host())
    yield ask(accelerator, fake_host(NPU, expect="npu", options=Options(expect_count=8)))
