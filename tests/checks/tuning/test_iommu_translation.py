"""iommu-translation: passed through, translated, none on, no cards, an old kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.checks.tuning.tuned_machine import judge

from npudoctor import Status
from npudoctor.checks.tuning.iommu_translation import iommu_translation
from npudoctor.host.devices.accelerators import HUAWEI, PCI
from npudoctor.testing import Asked, Content, folder


def _cards(*kinds: str, group: bool = True) -> dict[str, Content]:
    files: dict[str, Content] = {}
    for number, kind in enumerate(kinds):
        card = f"{PCI}/0000:c{number}:00.0"
        files.update({f"{card}/vendor": HUAWEI, f"{card}/device": "0xd802", f"{card}/class": "0x120000"})
        if group:
            files[f"{card}/iommu_group"] = folder()
        if kind:
            files[f"{card}/iommu_group/type"] = f"{kind}\n"
    return files


def _asked(files: dict[str, Content], **more: Any) -> Asked:
    return judge(iommu_translation, files, **more)


def scene(tmp: Path) -> Iterator[Asked]:
    """Each way of putting it."""
    yield _asked(_cards("DMA-FQ"))
    yield _asked(_cards("DMA"), commands={"grubby": ""})
    yield _asked({})
    yield _asked(_cards("", group=False))
    yield _asked(_cards(""))


def test_passed_through_is_quiet() -> None:
    asked = _asked(_cards("identity", "identity"))
    assert (asked.status, asked.codes) == (Status.OK, [])


@pytest.mark.parametrize("kind", ["DMA", "DMA-FQ", "blocked"])
def test_translated_is_said(kind: str) -> None:
    (finding,) = _asked(_cards("identity", kind)).findings
    assert (
        finding.message.startswith("the IOMMU translates memory accesses of 1 accelerators")
        and finding.fix is not None
    )
    assert finding.evidence == (f"0000:c1:00.0: {kind}",) and finding.fix.commands == ()
    assert "GRUB_CMDLINE_LINUX" in finding.fix.title


def test_grubby_is_used_where_it_is_and_taken_back() -> None:
    (finding,) = _asked(_cards("DMA"), commands={"grubby": ""}).findings
    assert finding.fix is not None
    (line,), (back,) = finding.fix.commands, finding.fix.undo_commands
    assert line.startswith("grubby --update-kernel=ALL --args=iommu")
    assert back == line.replace("--args", "--remove-args")


def test_skipped_without_card_or_iommu() -> None:
    assert _asked({}).status is Status.SKIPPED
    assert _asked(_cards("", group=False)).status is Status.SKIPPED


def test_an_old_kernel_does_not_tell() -> None:
    assert _asked(_cards("")).status is Status.UNKNOWN
