"""The folder where ranks meet: nobody else's, and nothing in it is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npudoctor.launch import rendezvous
from npudoctor.launch.rendezvous import Rendezvous


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place that there is."""
    path = tmp_path / "npudoctor"
    monkeypatch.setattr(rendezvous, "_candidate_folders", lambda euid, variables: iter([str(path)]))
    return path


def opened() -> Rendezvous:
    found = Rendezvous.open_first(os.geteuid(), {})
    assert found is not None
    return found


def test_it_is_made_for_its_user_alone(place: Path) -> None:
    umask = os.umask(0)
    try:
        opened().close()
    finally:
        os.umask(umask)
    assert place.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o701])
def test_one_that_others_may_enter_is_not_used(place: Path, mode: int) -> None:
    place.mkdir()
    place.chmod(mode)
    assert Rendezvous.open_first(os.geteuid(), {}) is None


@pytest.mark.needs_root
def test_another_users_is_not_used(place: Path) -> None:
    place.mkdir(mode=0o700)
    os.chown(place, 65534, 65534)
    assert Rendezvous.open_first(os.geteuid(), {}) is None


def test_a_link_is_not_followed(place: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(tmp_path / "elsewhere")
    assert Rendezvous.open_first(os.geteuid(), {}) is None


def test_no_place_at_all(place: Path) -> None:
    place.write_text("a file")
    assert Rendezvous.open_first(os.geteuid(), {}) is None


def test_what_is_written_is_read(place: Path) -> None:
    here = opened()
    assert here.read("x") is None
    here.write("x", {"value": "\udcff"})
    here.write("x", {"value": "\udcfe"})
    assert here.read("x") == {"value": "\udcfe"} and list(here.list_names()) == ["x"]
    here.remove("x")
    here.remove("x")
    assert list(here.list_names()) == []
    here.close()


def test_what_is_no_file_of_ours_is_nothing(place: Path, tmp_path: Path) -> None:
    here = opened()
    (tmp_path / "secret").write_text('{"answer": 1}')
    (place / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(place / "fifo")
    (place / "garbage").write_bytes(b"\xff\0{")
    (place / "list").write_text("[1]")
    (place / "huge").write_text('{"a": "' + "x" * (2 << 20) + '"}')
    for name in ("link", "fifo", "garbage", "list", "huge"):
        assert here.read(name) is None, name


def test_root_does_not_follow_the_variable() -> None:
    mine = list(rendezvous._candidate_folders(1000, {"XDG_RUNTIME_DIR": "/run/user/1000"}))
    assert mine == ["/run/user/1000/npudoctor", "/tmp/npudoctor-1000"]
    assert list(rendezvous._candidate_folders(1000, {"XDG_RUNTIME_DIR": "run"})) == ["/tmp/npudoctor-1000"]
    assert list(rendezvous._candidate_folders(0, {"XDG_RUNTIME_DIR": "/run/user/1000"})) == [
        "/run/npudoctor",
        "/tmp/npudoctor-0",
    ]
