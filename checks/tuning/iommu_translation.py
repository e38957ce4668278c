"""Does what accelerators read and write go through the IOMMU's tables?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from npudoctor import INFO, Command, Facts, Finding, Host, Scope, Skip, Unknown, _, check
from npudoctor.checks.tuning._settings import advise, read_or_empty
from npudoctor.host.devices.accelerators import PCI

# DMA and DMA-FQ are the translated types (ABI/testing/sysfs-kernel-iommu_groups).
IDENTITY = "identity"


@check(
    "iommu-translation",
    scope=Scope.NODE,
    needs=("npu", "gpu"),
    advisory=True,
    codes={"iommu-translation.on": INFO},
)
def iommu_translation(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The IOMMU is in passthrough mode for accelerators.

    ## What it does

    Reads the kind of the IOMMU group of each accelerator on the PCI bus: `identity` is passed through,
    `DMA` and `DMA-FQ` are translated. Skipped where no IOMMU is on, as in most virtual machines.

    - `iommu-translation.on`: the memory accesses of an accelerator are translated page by page.

    ## Why it matters

    On bare metal NVIDIA does not support copies between GPUs over PCIe while an IOMMU translates: they are
    slow or hang. Huawei describes NPUs with slow copies over a PCIe switch: an IOMMU that is on turns on ACS,
    which sends the copies through the processor.

    Passing devices through is not right for everyone: translation keeps a device away from memory that does
    not belong to it. Ask the person responsible for security.

    Gain: the sources state no figure.

    ## Fix safety

    Shown only: it is a parameter of the kernel's command line, and needs a reboot.

    ## References

    - NVIDIA, NCCL User Guide, troubleshooting, GPU Direct; NIM documentation, PCIe multi-GPU systems:
      iommu=pt.
    - Huawei, MindCluster ToolBox: low cross-ring PIX bandwidth due to ACS triggered by IOMMU.
    - Documentation/admin-guide/kernel-parameters.txt, iommu.passthrough;
      ABI/testing/sysfs-kernel-iommu_groups.
    """
    cards = [*host.npus.cards, *host.gpus.cards]
    if not cards:
        raise Skip(_("no accelerator is on the PCI bus here"))
    grouped = [card for card in cards if host.running_files.stat(f"{PCI}/{card}/iommu_group") is not None]
    if not grouped:
        raise Skip(_("no IOMMU is enabled"))
    kinds = {card: read_or_empty(host, f"{PCI}/{card}/iommu_group/type") for card in grouped}
    if not any(kinds.values()):
        raise Unknown(_("this kernel does not report the type of an IOMMU group"))
    yield Facts({"groups": kinds})
    translated = [card for card, kind in kinds.items() if kind and kind != IDENTITY]
    if translated:
        # The title and the lines: by grubby where it is installed, else in words.
        remedy: tuple[str, list[Command]]
        # x86 reads iommu=pt, arm64 only iommu.passthrough=1 (kernel-parameters.txt).
        word = "iommu=pt" if host.system.machine == "x86_64" else "iommu.passthrough=1"
        if not host.commands.find("grubby"):
            remedy = (
                _(
                    "add {word} to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub, and reboot",
                    word=word,
                ),
                [],
            )
        else:
            start = ("grubby", "--update-kernel=ALL")
            step = Command((*start, f"--args={word}"), undo=(*start, f"--remove-args={word}"))
            remedy = _("enable passthrough from the next boot on"), [step]
        yield advise(
            host,
            "iommu-translation.on",
            _(
                "the IOMMU translates memory accesses of {count} accelerators instead of passing them "
                "through",
                count=len(translated),
            ),
            *remedy,
            *(f"{card}: {kinds[card]}" for card in translated[:8]),
        )
