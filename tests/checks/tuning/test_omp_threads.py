"""omp-threads: unset, a share, too many, nonsense; who counts the ranks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest
from tests.checks.tuning.tuned_machine import judge

from npudoctor import Status
from npudoctor.checks.tuning.omp_threads import NAME, omp_threads
from npudoctor.testing import Asked, Content, device


def _asked(value: Optional[str], cpus: int = 64, devices: int = 8, **variables: str) -> Asked:
    files: dict[str, Content] = {f"/dev/davinci{number}": device() for number in range(devices)}
    own = {} if value is None else {NAME: value}
    return judge(omp_threads, files, variables={**own, **variables}, cpus=cpus)


def scene(tmp: Path) -> Iterator[Asked]:
    """Each way of putting it."""
    yield _asked(None)
    yield _asked("16")
    yield _asked("many")
    yield _asked("1", devices=1)
    yield _asked("1", cpus=0)


@pytest.mark.parametrize("value", ["1", "8", "8,2", " 4 "])
def test_a_share_is_quiet(value: str) -> None:
    assert _asked(value).codes == []


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "unset"), ("", "unset"), ("9", "too-many"), ("64", "too-many"),
        ("0", "not-a-number"), ("-1", "not-a-number"), ("many", "not-a-number"), ("4;4", "not-a-number"),
    ],
)  # fmt: skip
def test_what_is_said(value: Optional[str], code: str) -> None:
    (finding,) = _asked(value).findings
    assert finding.code == f"omp-threads.{code}" and finding.fix is not None
    assert finding.fix.commands == ("export OMP_NUM_THREADS=8",)
    back = "unset OMP_NUM_THREADS" if value is None else f"export OMP_NUM_THREADS={value}"
    assert finding.fix.undo_commands[0].replace("'", "") == back


def test_the_launcher_counts_the_ranks() -> None:
    assert _asked("16", LOCAL_WORLD_SIZE="4").codes == []
    assert _asked("16", LOCAL_WORLD_SIZE="5").codes == ["omp-threads.too-many"]
    assert _asked("64", LOCAL_WORLD_SIZE="1").status is Status.SKIPPED
    assert _asked("16", LOCAL_WORLD_SIZE="x").facts["ranks"] == 8


def test_one_thread_each_is_the_least_there_is() -> None:
    assert _asked("1", cpus=4).codes == []
    (finding,) = _asked(None, cpus=4).findings
    assert finding.fix is not None and finding.fix.commands == ("export OMP_NUM_THREADS=1",)


def test_one_device_has_all_cpus() -> None:
    assert _asked(None, devices=1).status is Status.SKIPPED


def test_cannot_tell() -> None:
    asked = _asked("8", cpus=0)
    assert (asked.status, asked.codes) == (Status.UNKNOWN, [])
    assert asked.reason.startswith("psutil cannot be loaded")
