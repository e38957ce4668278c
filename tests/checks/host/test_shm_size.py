"""/dev/shm: small, below what is usual, nearly full, not there; real ones of several sizes."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest

from npudoctor import Risk, Status
from npudoctor.checks.host.shm_size import shm_size
from npudoctor.host.fs.files import Space
from npudoctor.testing import Asked, Content, Memory, ask, fake_host, folder, unreadable

MIB, GIB = 1 << 20, 1 << 30
MOUNTED = "32 1 0:29 / /dev/shm rw,nosuid,nodev - tmpfs tmpfs rw,size=65536k\n"


def told(
    total: int,
    free: Optional[int] = None,
    container: bool = False,
    memory: int = 256 * GIB,
    tmpfs: bool = True,
) -> Asked:
    files: dict[str, Content] = {"/dev/shm": folder(0o1777), "/proc/self/mountinfo": MOUNTED if tmpfs else ""}
    if container:
        files["/.dockerenv"] = ""
    space = Space(total, total if free is None else free, 0, 0, 1)
    machine = Memory(memory, memory) if memory else None
    return ask(shm_size, fake_host(files, spaces={"/dev/shm": space}, memory=machine))


@pytest.mark.parametrize(
    ("total", "codes", "status"),
    [
        (64 * MIB, ["shm-size.small"], Status.PROBLEM),
        (64 * MIB + 1, ["shm-size.below-usual"], Status.OK),
        (GIB - 1, ["shm-size.below-usual"], Status.OK),
        (GIB, [], Status.OK),
        (500 * GIB, [], Status.OK),
    ],
)
def test_how_large(total: int, codes: list[str], status: Status) -> None:
    asked = told(total)
    assert (asked.codes, asked.status) == (codes, status)


def test_nearly_full() -> None:
    assert told(GIB, GIB // 20).codes == ["shm-size.nearly-full"]
    assert told(100 * GIB, 2 * GIB).codes == []  # little of it, and yet enough
    assert told(64 * MIB, MIB).codes == ["shm-size.small", "shm-size.nearly-full"]


def test_what_would_help() -> None:
    (finding,) = told(MIB).findings
    assert finding.fix and finding.fix.commands == ("mount -o remount,size=16g /dev/shm",)
    assert finding.fix.undo_commands == ("mount -o remount,size=1m /dev/shm",)
    assert (finding.fix.risk, finding.fix.needs_root, finding.fix.undoable) == (Risk.CAUTION, True, True)
    (finding,) = told(MIB, container=True).findings
    assert finding.fix and finding.fix.commands == () and "--shm-size=16g," in finding.fix.title
    assert finding.fix.container == ("--shm-size", "16g")


def test_what_is_no_tmpfs_has_no_size_of_its_own() -> None:
    (finding,) = told(MIB, tmpfs=False).findings
    assert finding.fix is None


def test_a_small_machine_gives_no_more_than_half() -> None:
    (finding,) = told(MIB, memory=6 * GIB).findings
    assert finding.fix and finding.fix.commands == ("mount -o remount,size=3g /dev/shm",)
    (finding,) = told(MIB, container=True, memory=6 * GIB).findings
    assert finding.fix and "--shm-size=3072m," in finding.fix.title
    for memory in (GIB, 2 * GIB - 4096, 0):  # it has its half already, or nobody tells
        (finding,) = told(GIB - 1 if memory else MIB, memory=memory).findings
        assert finding.fix is None


def test_not_there_and_cannot_tell() -> None:
    assert ask(shm_size, fake_host()).codes == ["shm-size.missing"]
    assert ask(shm_size, fake_host({"/dev/shm": unreadable(5)})).status is Status.UNKNOWN
    assert ask(shm_size, fake_host(root="/image")).status is Status.SKIPPED


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("size", "codes"), [("64m", ["shm-size.small"]), ("512m", ["shm-size.below-usual"]), ("2g", [])]
)
def test_a_real_one(size: str, codes: list[str]) -> None:
    program = shlex.quote(sys.executable)
    script = f"mount -t tmpfs -o size={size} tmpfs /dev/shm && exec {program} -m npudoctor check "
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script + "shm-size --format json"], capture_output=True, text=True
    )
    (row,) = json.loads(done.stdout)["results"]
    assert [finding["code"] for finding in row["findings"]] == codes


@pytest.mark.needs_root
def test_a_real_one_that_is_nearly_full() -> None:
    script = (
        "mount -t tmpfs -o size=2g tmpfs /dev/shm && fallocate -l 1950m /dev/shm/data && "
        f"exec {shlex.quote(sys.executable)} -m npudoctor check shm-size --format json"
    )
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True)
    (row,) = json.loads(done.stdout)["results"]
    assert [finding["code"] for finding in row["findings"]] == ["shm-size.nearly-full"]


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told(MIB)
    yield told(MIB, container=True)
    yield told(100 * MIB)
    yield told(GIB, MIB)
    yield ask(shm_size, fake_host())
