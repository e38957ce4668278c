"""Gathering what there is to judge: no question goes to a file system that may block, by a link neither."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npudoctor.core.mounts import Mount, Mounts
from npudoctor.facts.leftovers.cache_traces import has_trace
from npudoctor.host import CannotTell, Host, Options
from npudoctor.host.fs.files import LocalDisk
from npudoctor.proof.snapshot import take_snapshot


def host(tmp: Path, blocking: Path) -> Host:
    mounts = Mounts([Mount("/", "ext4"), Mount(str(blocking), "nfs4")])
    return Host(Options(tmp=str(tmp)), disk=LocalDisk(mounts=mounts))


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that this process may not list."""
    path = tmp_path / "remote"
    path.mkdir()
    real = os.listdir

    def listdir(where: object = ".") -> list[str]:
        shown = (
            os.readlink(f"/proc/self/fd/{where}") if isinstance(where, int) else os.path.realpath(str(where))
        )
        assert not shown.startswith(str(path)), "it may block"
        return real(where)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "listdir", listdir)
    return path


def test_a_tmp_that_is_a_link(tmp_path: Path, remote: Path) -> None:
    (tmp_path / "tmp").symlink_to(remote)
    asked = host(tmp_path / "tmp", remote)
    assert has_trace(asked), "it cannot be said that there is none"
    with pytest.raises(CannotTell, match="may block"):
        take_snapshot(asked)
    asked.disk.close()


def test_a_tmp_that_is_a_loop(tmp_path: Path, remote: Path) -> None:
    (tmp_path / "tmp").symlink_to("tmp")
    assert has_trace(host(tmp_path / "tmp", remote))


def test_a_place_that_is_a_link(tmp_path: Path, remote: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "mindspore").symlink_to(remote)
    asked = host(tmp_path / "tmp", remote)
    with pytest.raises(CannotTell, match="may block"):
        take_snapshot(asked)
    asked.disk.close()
