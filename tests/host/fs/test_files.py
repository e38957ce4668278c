"""Files: links stay inside --root, and nothing hangs, lies or crashes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.others import let_through

from npudoctor.core.mounts import Mount, Mounts
from npudoctor.host import CannotTell
from npudoctor.host.fs.files import MAX_LINKS, Files, LocalDisk, PathStatus
from npudoctor.testing import MemoryDisk, folder, link, unreadable


@pytest.fixture
def files() -> Files:
    return Files(LocalDisk())


@pytest.fixture
def image(tmp_path: Path) -> Files:
    """An image beside a file that must not be seen from inside it."""
    (tmp_path / "secret").write_text("outside")
    (tmp_path / "image/etc").mkdir(parents=True)
    (tmp_path / "image/etc/name").write_text("inside")
    return Files(LocalDisk(), str(tmp_path / "image"))


@pytest.mark.parametrize(
    ("target", "seen"),
    [
        ("/etc/name", "inside"),
        ("etc/name", "inside"),
        ("./etc//name", "inside"),
        ("../etc/name", "inside"),
        ("../../../../../etc/name", "inside"),
        ("etc/../../etc/name", "inside"),
        ("/..//etc/name", "inside"),
        ("../secret", None),
        ("/../secret", None),
        ("gone", None),
        ("etc/name/../name", None),
    ],
)
def test_links_are_resolved_inside_the_root(image: Files, target: str, seen: str) -> None:
    os.symlink(target, f"{image.root}/link")
    assert image.text("/link") == seen
    assert (image.stat("/link") is None) == (seen is None)
    assert image.real("/link") == ("/etc/name" if seen else None)


def test_an_absolute_link_to_what_is_only_outside(image: Files, tmp_path: Path) -> None:
    os.symlink(tmp_path / "secret", f"{image.root}/link")
    assert image.text("/link") is None
    entry = image.lstat("/link")
    assert entry is not None
    assert entry.is_link


def test_a_path_of_its_own_cannot_leave_the_root(image: Files) -> None:
    assert image.text("/../secret") is None
    assert image.text("/etc/../../secret") is None
    assert image.text("/../../etc/name") == "inside"


@pytest.mark.parametrize(("target", "real"), [("/", "/"), (".", "/etc"), ("..", "/"), ("/etc/.", "/etc")])
def test_links_that_add_nothing(image: Files, target: str, real: str) -> None:
    os.symlink(target, f"{image.root}/etc/link")
    assert image.real("/etc/link") == real
    entry = image.stat("/etc/link")
    assert entry is not None
    assert entry.is_dir
    assert image.text("/etc/link/../etc/name") == "inside"


def test_links_in_the_middle(image: Files) -> None:
    os.symlink("/etc", f"{image.root}/first")
    os.symlink("first", f"{image.root}/second")
    assert image.text("/second/name") == "inside"
    assert image.names("/second") == ["name"]
    assert image.real("/second/name") == "/etc/name"


@pytest.mark.parametrize("target", ["link", "./link", "/link", "other", "link/more"])
def test_a_loop_names_nothing(image: Files, target: str) -> None:
    os.symlink(target, f"{image.root}/link")
    os.symlink("link", f"{image.root}/other")
    found = image.stat("/link"), image.real("/link"), image.text("/link"), image.names("/link/below")
    assert found == (None, None, None, []) and image.entries_on_path("/link") == []
    entry = image.lstat("/link")
    assert entry is not None and entry.is_link


def test_a_long_chain_is_no_loop() -> None:
    chain = {f"/link{number}": link(f"link{number + 1}") for number in range(MAX_LINKS)}
    files = Files(MemoryDisk({**chain, f"/link{MAX_LINKS}": "end"}))
    assert files.text("/link0") == "end"


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/etc/passwd/below",
        "/etc/passwd/..",
        "/etc/passwd/../passwd",
        "/" + "x" * 300,
        "/a\0b",
        "/\ud800",
    ],
)
def test_what_is_missing(files: Files, path: str) -> None:
    assert files.lstat(path) is None
    assert files.stat(path) is None
    assert files.real(path) is None
    assert files.text(path) is None
    assert files.names(path) == []


def test_a_file_has_no_names(files: Files) -> None:
    assert files.names("/etc/passwd") == []


def test_of_many_names_only_so_many_are_read(files: Files, tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"f{number}").touch()
    outside = LocalDisk(5.0, Mounts([Mount("/", "ext4"), Mount(str(tmp_path), "fuse.sshfs")]))
    for one in (files, Files(outside)):
        assert len(one.names(str(tmp_path))) == 20
        some = one.names(str(tmp_path), 7)
        assert len(some) == 7 and some == sorted(some)
    outside.close()


def test_the_root_itself(files: Files, image: Files) -> None:
    for place in (files, image):
        assert place.real("/") == "/"
        assert "etc" in place.names("/")
        entry = place.stat("/")
        assert entry is not None
        assert entry.is_dir


def test_a_relative_path_is_a_mistake(files: Files) -> None:
    with pytest.raises(ValueError, match="absolute"):
        files.stat("etc/passwd")


def test_a_fifo_is_not_waited_for(files: Files, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(CannotTell, match="not a regular file"):
        files.text(str(tmp_path / "fifo"))
    assert LocalDisk().read(str(tmp_path / "fifo"), 10) == b"", "nor when it took a file's place since"


def test_a_device_is_not_read(files: Files) -> None:
    with pytest.raises(CannotTell, match="not a regular file"):
        files.text("/dev/zero")


def test_names_and_content_that_are_no_utf_8(files: Files, tmp_path: Path) -> None:
    name = b"caf\xe9"
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(b"\xff\n")
    assert files.names(str(tmp_path)) == [os.fsdecode(name)]
    assert files.text(f"{tmp_path}/{os.fsdecode(name)}") == "\udcff\n"


def test_no_more_is_read_than_asked_for(files: Files) -> None:
    assert files.read("/proc/self/status", 5) == b"Name:"


def as_nobody(ask: Callable[[], None]) -> None:
    """Run in a child of another user; what it raises is this test's failure."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            ask()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.needs_root
def test_what_may_not_be_read_is_not_missing(tmp_path: Path) -> None:
    let_through(tmp_path)
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "closed/file").write_text("")
    (tmp_path / "listed").mkdir(mode=0o711)
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0o600)
    os.symlink("closed/file", tmp_path / "link")

    def ask() -> None:
        files = Files(LocalDisk())
        for name in ("closed/file", "closed/nothing", "link"):
            with pytest.raises(CannotTell, match="Permission denied"):
                files.stat(f"{tmp_path}/{name}")
        with pytest.raises(CannotTell, match="Permission denied"):
            files.names(f"{tmp_path}/listed")
        with pytest.raises(CannotTell, match="Permission denied"):
            files.text(f"{tmp_path}/secret")
        assert files.stat(f"{tmp_path}/secret") is not None
        assert files.lstat(f"{tmp_path}/link") is not None

    as_nobody(ask)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ELOOP])
def test_an_error_is_neither_missing_nor_empty(number: int) -> None:
    files = Files(MemoryDisk({"/mnt/data": unreadable(number), "/link": link("/mnt/data/x")}))
    for ask in (files.stat, files.names, files.text, files.real):
        for path in ("/mnt/data", "/mnt/data/x", "/link"):
            with pytest.raises(CannotTell, match=os.strerror(number)):
                ask(path)


def test_each_thing_is_looked_at_once() -> None:
    disk = MemoryDisk({"/a/b": folder(), "/a/b/c": "1"})
    asked: list[str] = []
    look = disk.lstat

    def lstat(path: str) -> PathStatus:
        asked.append(path)
        return look(path)

    disk.lstat = lstat  # type: ignore[method-assign]
    files = Files(disk)
    for path in ("/a/b/c", "/a/b/c", "/a/b", "/a/b/d", "/a/b/d"):
        files.stat(path)
    assert sorted(asked) == ["/", "/a", "/a/b", "/a/b/c", "/a/b/d"]


def test_a_mount_that_may_block_is_asked_in_a_child_and_answers_alike(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff content")
    (tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    os.symlink("file", tmp_path / "link")
    plain = LocalDisk()
    asked = LocalDisk(mounts=Mounts([Mount(str(tmp_path), "nfs4"), Mount("/", "ext4")]))
    try:
        assert asked.may_block(str(tmp_path / "file"))
        assert not asked.may_block("/etc/passwd")
        for name in ("file", "link", os.fsdecode(b"caf\xe9")):
            assert asked.lstat(str(tmp_path / name)) == plain.lstat(str(tmp_path / name))
        assert asked.readlink(str(tmp_path / "link")) == "file"
        assert sorted(asked.names(str(tmp_path))) == sorted(os.listdir(tmp_path))
        assert asked.read(str(tmp_path / "file"), 3) == b"\xff c"
        with pytest.raises(FileNotFoundError):
            asked.lstat(str(tmp_path / "nothing"))
        assert Files(asked).text(str(tmp_path / "link")) == "\udcff content"
    finally:
        asked.close()
