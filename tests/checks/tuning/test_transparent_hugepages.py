"""transparent-hugepages: each mode, large base pages, other accelerators; what this kernel says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.checks.tuning.tuned_machine import CONTAINER, judge

from npudoctor import Status
from npudoctor.checks.tuning.transparent_hugepages import FOLDER, transparent_hugepages
from npudoctor.testing import Asked, Content, unreadable

ENABLED, SIZE = f"{FOLDER}/enabled", f"{FOLDER}/hpage_pmd_size"
MODES = {name: "always madvise never".replace(name, f"[{name}]") for name in ("always", "madvise", "never")}


def _mode(name: str, size: str = "2097152") -> dict[str, Content]:
    return {ENABLED: MODES[name] + "\n", SIZE: size + "\n"}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each way of putting it."""
    yield judge(transparent_hugepages, _mode("never"))
    yield judge(transparent_hugepages, {**_mode("madvise"), **CONTAINER})
    yield judge(transparent_hugepages, {})
    yield judge(transparent_hugepages, {ENABLED: "sometimes\n"})


@pytest.mark.parametrize(
    ("mode", "expect", "codes"),
    [
        ("always", "npu", []),
        ("madvise", "npu", ["transparent-hugepages.on-request"]),
        ("madvise", "gpu", []),
        ("never", "npu", ["transparent-hugepages.off"]),
        ("never", "gpu", ["transparent-hugepages.off"]),
    ],
)
def test_each_mode(mode: str, expect: str, codes: list[str]) -> None:
    asked = judge(transparent_hugepages, _mode(mode), expect=expect)
    assert (asked.status, asked.codes) == (Status.OK, codes)


def test_the_line_and_the_way_back() -> None:
    (finding,) = judge(transparent_hugepages, _mode("never")).findings
    assert finding.fix is not None
    assert finding.fix.commands == (f"sh -c 'echo madvise > {ENABLED}'",)
    assert finding.fix.undo_commands == (f"sh -c 'echo never > {ENABLED}'",)


def test_pages_of_512_mib_are_nobodys_advice() -> None:
    assert judge(transparent_hugepages, _mode("never", str(512 << 20))).codes == []


@pytest.mark.parametrize("content", ["", "sometimes\n", "[often]\n", unreadable()])
def test_cannot_tell(content: Content) -> None:
    assert judge(transparent_hugepages, {ENABLED: content}).status is Status.UNKNOWN


def test_skipped_without_them() -> None:
    assert judge(transparent_hugepages, {}).status is Status.SKIPPED


@pytest.mark.skipif(not Path(ENABLED).exists(), reason="this kernel has no transparent hugepages")
def test_what_this_kernel_says_is_understood() -> None:
    files: dict[str, Content] = {ENABLED: Path(ENABLED).read_text()}
    asked = judge(transparent_hugepages, files)
    assert asked.status is Status.OK and asked.facts["mode"] in MODES
