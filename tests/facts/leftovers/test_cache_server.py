"""Where cache servers leave things: places, keys, candidates, and ways that lead through links."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import ipc
from tests.support.others import as_user

from npudoctor.facts.leftovers.cache_server import ftok, iterate_places, socket_files, spill_folder
from npudoctor.host.fs.walk import Parent, open_directory

SPILL = "3lr1ylspns1shnov0vme7jt8iphsjcv6wbhh"
SOMEBODY = 61234


@pytest.fixture
def tmp(tmp_path: Path) -> Path:
    """What stands for /tmp."""
    return tmp_path


@pytest.fixture
def open_place() -> Iterator[Path]:
    """One that other users can come to."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def bound(path: Path) -> None:
    """A socket file at which nobody listens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        descriptor = os.open(path.parent, os.O_PATH)
        server.bind(f"/proc/self/fd/{descriptor}/{path.name}")
        os.close(descriptor)


def test_the_key_is_what_the_c_library_computes(tmp: Path) -> None:
    for number in range(20):
        path = tmp / f"cache_server_p{5000 + number}"
        bound(path)
        status = path.lstat()
        assert ftok(status.st_dev, status.st_ino) == ipc.ftok(str(path))


def test_the_key_of_a_capture() -> None:
    assert ftok(0xFE00, 2482627) == 0x6100E1C3
    assert ftok(0x1FF, 0x1FFFF) == 0x61FFFFFF


def test_all_four_places_are_looked_at(tmp: Path) -> None:
    (tmp / "mindspore" / "alice").mkdir(parents=True)
    base = str(tmp)
    assert list(iterate_places(base)) == [
        (base, True),
        (f"{base}/mindspore/cache", True),
        (f"{base}/mindspore", False),
        (f"{base}/mindspore/alice", False),
    ]


def test_candidates_at_all_places(tmp: Path) -> None:
    for place in ("", "mindspore/cache", "mindspore", "mindspore/alice"):
        bound(tmp / place / "cache_server_p50052")
    found = socket_files(str(tmp)).sockets
    assert [(one.directory, one.old) for one in found] == [
        (str(tmp), True),
        (f"{tmp}/mindspore/cache", True),
        (f"{tmp}/mindspore", False),
        (f"{tmp}/mindspore/alice", False),
    ]
    assert {one.port for one in found} == {50052}
    assert all(one.entry.is_socket and one.key == ipc.ftok(one.path) for one in found)


@pytest.mark.parametrize(
    "name",
    [
        "cache_server_p", "cache_server_p123456", "cache_server_p50052.bak", "xcache_server_p50052",
        "cache_server_p5\n", "cache_server_p٥", ".cache_server_p50052.npudoctor.", "cache_server_p-1",
    ],
)  # fmt: skip
def test_other_names_are_none(tmp: Path, name: str) -> None:
    bound(tmp / name)
    assert socket_files(str(tmp)).sockets == ()


def test_links_and_plain_files_are_candidates_that_are_no_sockets(tmp: Path) -> None:
    (tmp / "cache_server_p1025").write_text("")
    bound(tmp / "elsewhere")
    (tmp / "cache_server_p1026").symlink_to("elsewhere")
    assert [one.entry.is_socket for one in socket_files(str(tmp)).sockets] == [False, False]


def test_a_parked_socket_is_known_by_its_first_name(tmp: Path) -> None:
    bound(tmp / ".cache_server_p50052.npudoctor.0123abcd")
    (found,) = socket_files(str(tmp)).sockets
    assert (found.parked, found.port) == (True, 50052)
    assert found.original == f"{tmp}/cache_server_p50052"


def test_a_place_behind_a_link_is_not_looked_into_and_said(tmp: Path) -> None:
    bound(tmp / "real" / "cache_server_p50052")
    (tmp / "mindspore").symlink_to("real")
    found = socket_files(str(tmp))
    assert found.sockets == ()
    assert [path for path, _why in found.unseen] == [f"{tmp}/mindspore"]


def test_names_are_not_listed_through_a_link(tmp: Path) -> None:
    (tmp / "real" / "alice").mkdir(parents=True)
    (tmp / "mindspore").symlink_to("real")
    assert [path for path, _old in iterate_places(str(tmp))] == [
        str(tmp), f"{tmp}/mindspore/cache", f"{tmp}/mindspore",
    ]  # fmt: skip


@pytest.mark.needs_root
def test_a_place_that_is_another_users_is_hidden(open_place: Path) -> None:
    (open_place / "mindspore").mkdir(mode=0o700)
    base = str(open_place)
    found = as_user(SOMEBODY, lambda: socket_files(base))
    assert found.hidden == (f"{base}/mindspore/cache", f"{base}/mindspore")


@pytest.mark.needs_root
def test_a_place_that_may_be_passed_and_not_listed_is_passed(open_place: Path) -> None:
    own = open_place / "mindspore" / "cache"
    own.mkdir(parents=True)
    bound(own / "cache_server_p50052")
    (open_place / "mindspore").chmod(0o711)
    base = str(open_place)
    assert len(as_user(SOMEBODY, lambda: socket_files(base)).sockets) == 1


def test_no_link_is_followed_on_the_way(tmp: Path) -> None:
    (tmp / "a" / "b").mkdir(parents=True)
    (tmp / "link").symlink_to("a")
    for path in (tmp / "link", tmp / "link" / "b"):
        with pytest.raises(OSError, match=str(tmp / "link")) as refused, open_directory(str(path)):
            pass
        assert refused.value.errno == errno.ELOOP
    (tmp / "file").write_text("")
    with pytest.raises(NotADirectoryError), open_directory(str(tmp / "file" / "b")):
        pass
    with pytest.raises(FileNotFoundError), open_directory(str(tmp / "missing")):
        pass


def test_the_way_names_every_parent(tmp: Path) -> None:
    (tmp / "a").mkdir()
    with open_directory(f"//{tmp}//a/") as (descriptor, parents):
        assert os.path.samestat(os.fstat(descriptor), os.stat(tmp / "a"))
    assert [parent.path for parent in parents] == [*map(str, reversed((tmp / "a").parents)), f"{tmp}/a"]
    with open_directory("/") as (_descriptor, parents):
        assert [parent.path for parent in parents] == ["/"]


def test_no_descriptor_is_left(tmp: Path) -> None:
    (tmp / "mindspore").symlink_to("x")
    before = len(os.listdir("/proc/self/fd"))
    socket_files(str(tmp))
    spill_folder(f"{tmp}/missing")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("mode", "writable"),
    [(0o755, 0), (0o700, 0), (0o777, 1), (0o1777, 0), (0o775, 1), (0o757, 1), (0o2775, 1)],
)
def test_who_may_write_a_parent(mode: int, writable: int) -> None:
    assert Parent("/x", 0, mode).is_writable_by_others == bool(writable)


def test_a_spill_folder_and_what_is_in_it(tmp: Path) -> None:
    folder = tmp / SPILL
    folder.mkdir(mode=0o700)
    found = spill_folder(str(folder))
    assert found is not None
    assert (found.files, found.newest, found.plain) == ((), None, True)
    for number, moment in enumerate((1_800_000_000.25, 1_800_000_007.75)):
        path = folder / f"IMG{number:05}.LB"
        path.write_bytes(b"x")
        os.utime(path, (moment, moment))
    found = spill_folder(str(folder))
    assert found is not None
    assert found.newest == 1_800_000_007
    assert found.plain
    assert [parent.path for parent in found.parents][-1] == str(tmp)


@pytest.mark.parametrize("what", ["name", "link", "folder", "hard link"])
def test_a_spill_folder_with_more_in_it_is_not_plain(tmp: Path, what: str) -> None:
    folder = tmp / SPILL
    folder.mkdir()
    container = folder / "IMG00000.LB"
    if what == "name":
        (folder / "notes.txt").write_text("")
    elif what == "link":
        container.symlink_to("/etc/passwd")
    elif what == "folder":
        container.mkdir()
    else:
        (tmp / "data").write_text("")
        os.link(tmp / "data", container)
    found = spill_folder(str(folder))
    assert found is not None
    assert not found.plain


def test_no_spill_folder(tmp: Path) -> None:
    (tmp / "file").write_text("")
    (tmp / "link").symlink_to(".")
    assert spill_folder(f"{tmp}/missing") is None
    assert spill_folder(f"{tmp}/file") is None
    with pytest.raises(OSError, match="link"):
        spill_folder(f"{tmp}/link")
