"""Mounts: what may block is everything that is not known to be local."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Callable, Optional

import pytest

from npudoctor.core.mounts import Mount, Mounts, mount_of, parse_mountinfo, user_mount_points
from npudoctor.host import CannotTell

TABLE = r"""
22 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw
28 1 252:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
40 28 0:35 /export /data rw shared:5 master:2 - nfs4 filer:/export rw,vers=4.2
41 28 0:36 / /mnt/with\040blank rw - fuse.sshfs someone@host: rw
42 40 0:37 / /data/scratch rw - tmpfs tmpfs rw
43 28 0:38 / /net rw - autofs systemd-1 rw
44 28 0:39 / /twice rw - nfs old:/ rw
45 44 0:40 / /twice rw - ext4 /dev/vdb rw
46 28 0:41 / /new rw - brandnewfs x rw
not a line
"""


@pytest.mark.parametrize(
    ("path", "point"),
    [
        ("/", None),
        ("/etc/passwd", None),
        ("/proc/1/stat", None),
        ("/data", "/data"),
        ("/data/a/b", "/data"),
        ("/database", None),
        ("/data/scratch/x", None),
        ("/mnt/with blank/x", "/mnt/with blank"),
        ("/mnt", None),
        ("/net/host", "/net"),
        ("/twice/x", None),
        ("/new", "/new"),
    ],
)
def test_which_mount_may_block(path: str, point: Optional[str]) -> None:
    risky = Mounts(list(parse_mountinfo(TABLE).values())).risky(path)
    assert (risky.point if risky else None) == point


def test_of_several_at_one_point_the_last_is_on_top() -> None:
    assert parse_mountinfo(TABLE)["/twice"] == Mount("/twice", "ext4", ("rw",), ("rw",))


@pytest.mark.parametrize(
    ("own", "of_all", "read_only"),
    [("rw,relatime", "rw", False), ("ro,nosuid", "rw", True), ("rw", "ro,errors=remount-ro", True)],
)
def test_read_only_here_or_everywhere(own: str, of_all: str, read_only: bool) -> None:
    """`mount -o remount,bind,ro` shows in the first place, a file system that is itself so in the second."""
    (mount,) = parse_mountinfo(f"30 1 8:1 / /data {own} - ext4 /dev/sda1 {of_all}\n").values()
    assert mount.read_only is read_only


def test_this_machine_has_local_mounts() -> None:
    assert Mounts.of_this_machine().risky("/proc/self/stat") is None


def test_which_mount_holds_a_path() -> None:
    mounts = {point: Mount(point, "ext4") for point in ("/", "/data", "/data/a b")}
    for path, point in (("/", "/"), ("/database", "/"), ("/data/x/y", "/data"), ("/data/a b", "/data/a b")):
        assert mount_of(mounts, path) == mounts[point]
    assert mount_of({}, "/data") is None


def test_without_a_proc_it_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npudoctor.core.mounts.MOUNTINFO", "/nonexistent/mountinfo")
    with pytest.raises(CannotTell, match="/nonexistent/mountinfo"):
        Mounts.of_this_machine()


def test_file_systems_that_users_mounted() -> None:
    mountinfo = (
        "1 0 0:1 / / rw - fuse.fuse-overlayfs x rw,user_id=0,group_id=0\n"
        "2 1 0:2 / /mnt/a\\040b rw,nosuid - fuse.bindfs x rw,user_id=12345,group_id=1\n"
        "3 1 0:3 / /mnt/ours rw - fuse x rw,user_id=1000\n"
        "4 1 0:4 / /sys/fs/fuse/connections rw - fusectl none rw\n"
        "5 1 0:5 / /data rw - nfs4 server:/ rw\n"
        "6 1 0:6 / /stick rw,nosuid - fuseblk /dev/sda1 rw,user_id=0,allow_other\n"
    )
    utab = (
        "SRC=/dev/sdb1 TARGET=/run/media/ann/X\\040Y ROOT=/ OPTS=uhelper=udisks2\n"
        "SRC=/dev/sdc1 TARGET=/cdrom ROOT=/ OPTS=user=ann\n"
        "SRC=server:/ TARGET=/data ROOT=/ OPTS=_netdev\n"
        "nonsense\n"
    )
    disks = ["/run/media/ann/X Y", "/cdrom"]
    assert list(user_mount_points(mountinfo, utab)) == ["/mnt/a b", "/mnt/ours", *disks]
    assert list(user_mount_points(mountinfo, utab, 1000)) == ["/mnt/a b", *disks]


FORGED = "a\r63 43 8:1 / /data rw - ext4 /dev/sda1 rw"
SOURCE = "x\x0brw,user_id=0\u2028"


def test_what_a_user_names_forges_no_mount() -> None:
    line = f"64 43 0:52 / /home/u/{FORGED.replace(' ', chr(92) + '040')} rw - fuse.x {SOURCE} rw,user_id=1001"
    (mount,) = parse_mountinfo(f"{line}\n").values()
    assert (mount.point, mount.kind) == (f"/home/u/{FORGED}", "fuse.x")
    assert mount.options == ("rw", "user_id=1001")
    assert list(user_mount_points(f"{line}\n", "")) == [mount.point]


@pytest.mark.needs_root
def test_nor_on_a_real_machine(tmp_path: Path, need: Callable[..., None]) -> None:
    """What the kernel prints of such a name, and what we read of it."""
    need("unshare", "mount")
    point = tmp_path / FORGED.replace("/", "-")
    point.mkdir()
    code = (
        "import subprocess, sys; from npudoctor.core.mounts import mountinfo, parse_mountinfo;"
        "subprocess.run(['mount', '-t', 'tmpfs', sys.argv[2], sys.argv[1]], check=True);"
        "found = parse_mountinfo(mountinfo()); mount = found[sys.argv[1]];"
        "assert mount.kind == 'tmpfs' and 'user_id=0' not in mount.options, mount;"
        "assert '/data' not in found and '-data' not in found"
    )
    command = ["unshare", "-m", "--propagation", "private", sys.executable, "-c", code, str(point), SOURCE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
