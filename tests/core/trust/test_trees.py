"""Which folders and files root trusts: real files, real uids, real mounts."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest
from tests.support.fuse import Claiming
from tests.support.ipc import unshare
from tests.support.others import forked
from tests.support.roots import SOMEBODY, theirs

from npudoctor.core.trust.paths import why_untrusted
from npudoctor.core.trust.trees import RootTrust
from npudoctor.host.fs.files import Files, LocalDisk

pytestmark = pytest.mark.needs_root


def trust() -> RootTrust:
    return RootTrust(Files(LocalDisk()))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder for packages of root's, with one package."""
    (tmp_path / "site/package").mkdir(parents=True)
    (tmp_path / "site/package/module.py").write_text("")
    return tmp_path / "site"


def test_a_link_to_a_folder_leads_to_one_in_which_names_are_looked_up(site: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (site / "linked").symlink_to(tmp_path / "far")
    assert trust().why_not_tree(str(site)) is None
    (tmp_path / "far").chmod(0o1777)
    for judged in (trust().why_not_tree, trust().why_not_entries):
        assert judged(str(site)) == f"{site}/linked is writable by other users"


def test_a_link_to_a_file_in_a_sticky_folder_is_roots(site: Path, tmp_path: Path) -> None:
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    (tmp_path / "sticky/module.py").write_text("")
    (site / "module.py").symlink_to(tmp_path / "sticky/module.py")
    assert trust().why_not_tree(str(site)) is None


@pytest.mark.parametrize("deep", ["", "package/"])
@pytest.mark.parametrize(("mode", "trusted"), [(0o755, True), (0o1777, False)])
def test_what_a_dangling_link_lacks_is_not_for_others_to_make(
    site: Path, tmp_path: Path, deep: str, mode: int, trusted: bool
) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place").chmod(mode)
    (site / f"{deep}module_.py").symlink_to(tmp_path / "place/none/module_.py")
    assert (trust().why_not_tree(str(site)) is None) is trusted


def test_a_loop_of_links_is_nobodys(site: Path) -> None:
    (site / "loop").symlink_to("loop")
    assert trust().why_not_tree(str(site)) is None
    theirs(site / "loop")
    assert trust().why_not_tree(str(site)) is not None


def test_a_file_system_of_a_user_below_a_folder_of_roots(site: Path) -> None:
    """Real FUSE, which says that all is root's, mounted over a folder of that user."""

    def ask() -> tuple[Optional[str], Optional[str]]:
        unshare("mnt")
        with Claiming({"module.py": b""}).mounted(site / "package", SOMEBODY):
            return trust().why_not_tree(str(site)), trust().why_not_entries(str(site))

    site.parent.chmod(0o755)
    theirs(site / "package")
    said = f"{site}/package is on the file system at {site}/package, which another user mounted"
    assert forked(ask) == (said, said)


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """Not pytest's folder, which may be in memory."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize("hidden", ["/proc", "/proc/self/mountinfo"])
def test_without_a_list_of_the_mounts_only_the_root_file_system_is_trusted(
    on_disk: Path, hidden: str
) -> None:
    def ask() -> list[Optional[str]]:
        unshare("mnt")
        subprocess.run(["mount", "-t", "tmpfs", "none", str(on_disk / "mount")], check=True)
        (on_disk / "mount/file").write_text("")
        if hidden == "/proc":
            subprocess.run(["mount", "-t", "tmpfs", "none", "/proc"], check=True)
        else:
            subprocess.run(["mount", "--bind", "/dev/null", f"/proc/{os.getpid()}/mountinfo"], check=True)
        paths = (str(on_disk / "mount/file"), str(on_disk / "file"))
        by_root = [trust().why_not(path) for path in paths]
        return by_root + [why_untrusted(path, 0) for path in paths]

    if os.lstat(on_disk).st_dev != os.lstat("/").st_dev:
        pytest.skip("the folder for temporary files is on a file system of its own")
    (on_disk / "mount").mkdir()
    (on_disk / "file").write_text("")
    answers = forked(ask)
    said = "/mount is not on the same file system as /, and /proc/self/mountinfo does not show who mounted it"
    assert answers[2:] == [f"{on_disk}{said}", None]
    if hidden == "/proc":  # nothing is touched by ourselves that may hang
        assert all("mountinfo cannot be read" in (answer or "") for answer in answers[:2])
    else:
        assert answers[:2] == answers[2:]
