"""swap-space: none, idle, in use, an eager kernel, a table that is none; and this machine's own table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.checks.tuning.tuned_machine import judge

from npudoctor import Status
from npudoctor.checks.tuning.swap_space import PATH, SWAPS, parse_swaps, swap_space
from npudoctor.testing import Asked, Content

HEAD = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
# As Linux 6.8 writes it, with a path that holds a space (the kernel escapes it).
IDLE = HEAD + "/swap.img                               file\t\t8388604\t\t0\t\t-2\n"
USED = HEAD + "/dev/nvme0n1p3                          partition\t16777212\t1234567\t\t-2\n"


def _swap(table: str, swappiness: str = "10") -> dict[str, Content]:
    return {SWAPS: table, PATH: swappiness + "\n"}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each way of putting it."""
    yield judge(swap_space, _swap(USED, "60"))
    yield judge(swap_space, _swap(HEAD))
    yield judge(swap_space, {})
    yield judge(swap_space, {SWAPS: HEAD + "nonsense\n"})


@pytest.mark.parametrize(
    ("table", "swappiness", "codes"),
    [
        (IDLE, "10", []),
        (IDLE, "60", ["swap-space.eager"]),
        (IDLE, "", []),
        (USED, "1", ["swap-space.in-use"]),
        (USED, "60", ["swap-space.in-use", "swap-space.eager"]),
    ],
)
def test_what_is_said(table: str, swappiness: str, codes: list[str]) -> None:
    asked = judge(swap_space, _swap(table, swappiness))
    assert (asked.status, asked.codes) == (Status.OK, codes)


def test_sizes_are_bytes_and_the_way_back_is_known() -> None:
    in_use, eager = judge(swap_space, _swap(USED, "60")).findings
    assert "1.2 GiB" in in_use.message and "16 GiB" in in_use.message
    assert eager.fix is not None and eager.fix.undo_commands == ("sysctl -w vm.swappiness=60",)


def test_skipped_without_swap() -> None:
    assert judge(swap_space, _swap(HEAD)).status is Status.SKIPPED


@pytest.mark.parametrize("line", ["nonsense", "a b c d", "/swap file x 0 -2", "/swap file 1 ² -2"])
def test_cannot_tell(line: str) -> None:
    assert judge(swap_space, _swap(HEAD + line + "\n")).status is Status.UNKNOWN


@pytest.mark.skipif(not Path(SWAPS).exists(), reason="this kernel has no swap")
def test_this_machines_table_is_understood() -> None:
    assert parse_swaps(Path(SWAPS).read_text()) is not None
