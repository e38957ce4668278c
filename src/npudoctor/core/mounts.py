"""Which file systems may block for ever: everything that is not known to be local and plain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror

MOUNTINFO = "/proc/self/mountinfo"
UTAB = "/run/mount/utab"  # where mount(8) records the user it mounted for

# A dead server or a stopped FUSE daemon blocks lstat() in the kernel, where no signal and no
# thread join reaches it. Only these never ask anybody outside of the kernel.
LOCAL = frozenset(
    "bcachefs btrfs cgroup cgroup2 devpts devtmpfs erofs ext2 ext3 ext4 f2fs hugetlbfs iso9660 mqueue "
    "overlay proc ramfs rootfs squashfs sysfs tmpfs udf vfat xfs zfs".split()
)

# fstab's option "user" is recorded as user=NAME; udisksctl mounts through its own helper.
_FOR_A_USER = pattern(r"\b(?:user=|uhelper=udisks)")
# The kernel writes blank, tab, newline and backslash as three octal digits (\040).
_OCTAL = pattern(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo: mount point, type, options of the file system (`options`) and of the mount alone
    (`own`).

    A file system that may be written may be mounted read-only at one point.
    """

    point: str
    kind: str
    options: tuple[str, ...] = ()
    own: tuple[str, ...] = ()

    @property
    def read_only(self) -> bool:
        return "ro" in self.own or "ro" in self.options


def lines_of(text: str) -> list[str]:
    """The lines of what the kernel or mount(8) prints, split at "\\n" alone.

    In names that users choose these escape blanks and "\\n", and nothing else at which splitlines() and
    split() part a text: with "\\r", "\\v" or U+2028 a name could forge a line or a field.
    """
    return [line for line in text.split("\n") if line]


def mountinfo() -> str:
    """The list of the mounts that this process sees, byte for byte; OSError without a /proc."""
    with open(MOUNTINFO, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        return file.read()


def parse_mountinfo(text: str) -> dict[str, Mount]:
    """The mounts of /proc/self/mountinfo by mount point; of several at one point the last is on top."""
    mounts = {}
    for line in lines_of(text):
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        # proc(5): field 5 is the mount point, 6 the options of the mount; after " - " type, source, options
        # of the superblock.
        if len(fields) >= 5 and kinds[0]:
            point = _unescape(fields[4])
            options = kinds[2].split(",") if len(kinds) > 2 else []
            own = fields[5].split(",") if len(fields) > 5 else []
            mounts[point] = Mount(point, kinds[0], tuple(options), tuple(own))
    return mounts


def mount_of(mounts: Mapping[str, Mount], path: str) -> Optional[Mount]:
    """The mount that holds an absolute path free of links; None where no mount does."""
    # From the path upwards: the longest mount point holds it.
    while path not in mounts and path != "/":
        path = path.rsplit("/", 1)[0] or "/"
    return mounts.get(path)


def user_mount_points(mountinfo: str, utab: str, euid: int = 0) -> Iterator[str]:
    """The mount points whose content another user than `euid` and root makes up, owners included: FUSE of a
    user, and disks that users may mount. FUSE of root is root's choice, as a container's fuse-overlayfs."""
    # FUSE names the user who mounted it as an option.
    own = {"user_id=0", f"user_id={euid}"}
    # Parsing is skipped on the many machines without FUSE.
    for mount in parse_mountinfo(mountinfo).values() if " - fuse" in mountinfo else ():
        # fusectl is the kernel's own /sys/fs/fuse/connections.
        if mount.kind.startswith("fuse") and mount.kind != "fusectl" and own.isdisjoint(mount.options):
            yield mount.point
    # libmount writes this file; the kernel does not know for whom it mounted.
    for line in lines_of(utab):
        target, options = re.search(r"(?:^| )TARGET=([^ ]+)", line), re.search(r"(?:^| )OPTS=([^ ]+)", line)
        if target and options and _FOR_A_USER.search(options[1]):
            yield _unescape(target[1])


def _unescape(path: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), path)


class Mounts:
    """Tells whether a path without links lies on a file system that may block."""

    def __init__(self, mounts: Iterable[Mount]) -> None:
        self._risky = {mount.point: mount for mount in mounts if mount.kind not in LOCAL}
        # Without a risky mount no path needs to be looked up.
        self._points = {mount.point for mount in mounts} if self._risky else set()

    @classmethod
    def of_this_machine(cls) -> Mounts:
        """The mounts that this process sees. CannotTell without a /proc: then any path may block."""
        try:
            return cls(list(parse_mountinfo(mountinfo()).values()))
        except OSError as error:
            why = strerror(error.errno or 0)
            raise CannotTell(_("{path} cannot be read: {why}", path=MOUNTINFO, why=why)) from error

    def risky(self, path: str) -> Optional[Mount]:
        """The mount of an absolute path free of links, if it may block; else None."""
        if not self._risky:
            return None
        while True:
            if path in self._points:
                return self._risky.get(path)
            if path == "/":
                return None
            path = path.rsplit("/", 1)[0] or "/"
