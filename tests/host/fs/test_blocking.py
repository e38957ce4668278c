"""The child that touches a mount: it may die or hang, we do not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from npudoctor.core.mounts import Mount, Mounts
from npudoctor.host import CannotTell
from npudoctor.host.fs.files import Files, LocalDisk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LocalDisk]:
    (tmp_path / "file").write_text("content")
    made = LocalDisk(0.5, Mounts([Mount("/", "ext4"), Mount(str(tmp_path), "fuse.sshfs")]))
    yield made
    made.close()


def child() -> psutil.Process:
    """The one that was started last."""
    return max(psutil.Process().children(), key=lambda process: process.create_time())


def test_a_child_that_hangs_costs_its_deadline_once(disk: LocalDisk, tmp_path: Path) -> None:
    files = Files(disk)
    assert files.text(f"{tmp_path}/file") == "content"
    asked = child()
    os.kill(asked.pid, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(CannotTell, match=f"mounted at {tmp_path} does not answer"):
        files.names(str(tmp_path))
    first = time.monotonic() - began
    assert 0.4 < first < 5
    began = time.monotonic()
    for _again in range(20):
        with pytest.raises(CannotTell):
            files.stat(f"{tmp_path}/other")
    assert time.monotonic() - began < 0.4, "the others know at once"
    asked.wait(5)
    assert files.text("/proc/self/comm"), "other mounts answer"


def test_a_child_that_dies_is_cannot_tell(disk: LocalDisk, tmp_path: Path) -> None:
    files = Files(disk)
    files.stat(str(tmp_path))
    child().kill()
    with pytest.raises(CannotTell):
        files.stat(f"{tmp_path}/file")


def test_nothing_is_started_for_local_files(tmp_path: Path) -> None:
    before = psutil.Process().children()
    disk = LocalDisk(0.5, Mounts([Mount("/", "ext4"), Mount(str(tmp_path), "nfs4")]))
    Files(disk).text("/etc/passwd")
    assert psutil.Process().children() == before
