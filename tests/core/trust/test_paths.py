"""Code is loaded only from where nobody but root and ourselves could have put it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable

import pytest

from npudoctor.core.trust.paths import read_trusted, why_untrusted

ME = os.geteuid()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that may be loaded."""
    path = tmp_path / "folder/file.py"
    path.parent.mkdir()
    path.write_bytes(b"x = 1")
    path.chmod(0o644)
    return path


def test_ours_is_read(file: Path) -> None:
    assert why_untrusted(str(file), ME) is None
    assert read_trusted(str(file), ME) == (b"x = 1", None)
    assert read_trusted(str(file), ME, limit=5) == (b"x = 1", None)
    assert read_trusted(str(file), ME, limit=4) == (None, f"{file} is larger than 4 bytes")


@pytest.mark.parametrize(
    ("change", "mode", "trusted"),
    [
        (lambda file: file, 0o640, True),
        (lambda file: file, 0o664, False),
        (lambda file: file, 0o646, False),
        (lambda file: file.parent, 0o755, True),
        (lambda file: file.parent, 0o775, False),
        (lambda file: file.parent, 0o1777, True),
        (lambda file: file.parent.parent, 0o757, False),
    ],
)
def test_whoever_may_write_a_part_of_the_path_decides(
    file: Path, change: Callable[[Path], Path], mode: int, trusted: bool
) -> None:
    path = change(file)
    path.chmod(mode)
    content, reason = read_trusted(str(file), ME)
    assert (content == b"x = 1") == trusted
    assert reason == (None if trusted else f"{path} is writable by other users")


@pytest.mark.needs_root
def test_another_owner_is_refused_anywhere_on_the_way(file: Path) -> None:
    for path in (file, file.parent):
        os.chown(path, 4321, -1)
        assert read_trusted(str(file), 0) == (None, f"{path} belongs to another user")
        assert read_trusted(str(file), 4321)[0] == b"x = 1"
        os.chown(path, 0, -1)


def test_links_are_followed_and_each_step_is_judged(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link.py").symlink_to("folder/../folder/file.py")
    (tmp_path / "far").symlink_to(file.parent)
    assert read_trusted(str(tmp_path / "link.py"), ME)[0] == b"x = 1"
    assert read_trusted(str(tmp_path / "far/file.py"), ME)[0] == b"x = 1"
    file.parent.chmod(0o777)
    for path in (tmp_path / "link.py", tmp_path / "far/file.py"):
        assert read_trusted(str(path), ME) == (None, f"{file.parent} is writable by other users")


@pytest.mark.needs_root
def test_a_link_of_another_user_is_refused(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to(file)
    os.lchown(link, 4321, -1)
    assert read_trusted(str(link), 0) == (None, f"{link} belongs to another user")


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    assert read_trusted(str(tmp_path / "fifo"), ME) == (None, f"{tmp_path}/fifo is not a regular file")
    for name, target in (("loop", "loop"), ("dangling", "nowhere")):
        (tmp_path / name).symlink_to(target)
        content, reason = read_trusted(str(tmp_path / name), ME)
        assert content is None and reason is not None and "cannot be read" in reason


@pytest.mark.parametrize(("mode", "trusted"), [(0o755, True), (0o1755, True), (0o1777, False)])
def test_a_folder_into_which_others_may_put_more_is_refused(tmp_path: Path, mode: int, trusted: bool) -> None:
    """A sticky one is fine on the way only."""
    (tmp_path / "checks.d").mkdir()
    (tmp_path / "checks.d").chmod(mode)
    assert (why_untrusted(str(tmp_path / "checks.d"), ME) is None) is trusted
