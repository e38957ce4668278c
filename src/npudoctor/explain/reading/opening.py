"""Opens what is to be read, and nothing else: whoever may write in a folder of logs can put links, other
files, pipes and devices there at any moment, and root may be the one who reads it.

What was named is followed through links, as who named it meant them; as root not through another user's
links to what is not that user's. Below a folder no link is followed, every step is taken from a directory
that is held open, and what was opened must be what the walk saw.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Optional

from npudoctor.core.messages import _, strerror
from npudoctor.core.mounts import LOCAL, lines_of, mountinfo

WAY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a pipe would be waited for, and a device might act.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LINKS = 40  # as the kernel
# File systems that hold no logs, and where reading a file may act, wait or take something away.
UNREAL = frozenset(
    "autofs binder binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs"
    " mqueue nsfs proc pstore resctrl rpc_pipefs securityfs selinuxfs smackfs sysfs tracefs".split()
)


class UnreadableLog(Exception):
    """What cannot be read; the text says why, without the path."""


Identity = tuple[int, int]  # device and inode


def identity_of(status: os.stat_result) -> Identity:
    """What a file is, whatever it is called."""
    return status.st_dev, status.st_ino


def open_named(path: str) -> int:
    """An O_PATH descriptor of what a path means. OSError; Unreadable where a link of another user would lead
    root to what is not that user's."""
    # Another user's links cannot lead this user to what he may not read himself.
    if os.geteuid():
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    here = os.open("/" if path.startswith("/") else ".", WAY)
    leaders: dict[int, str] = {}
    todo, links = path.split("/")[::-1], 0
    try:
        while todo:
            part = todo.pop()
            if not part:
                continue
            below = os.open(part, _PLACE, dir_fd=here)
            status = os.fstat(below)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if status.st_uid:
                    leaders[status.st_uid] = part
                if links > _LINKS:
                    os.close(below)
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if os.fstat(here).st_dev in pseudo_devices():  # its links lead where no path does
                    os.close(below)
                    below = os.open(part, os.O_PATH | os.O_CLOEXEC, dir_fd=here)
                else:
                    target = os.readlink("", dir_fd=below)  # of this very link, whatever stands there now
                    os.close(below)
                    todo += target.split("/")[::-1]
                    if not target.startswith("/"):
                        continue
                    below = os.open("/", WAY)
            place, here = here, below
            try:
                expect_own_name(status, os.fstat(place))
            finally:
                os.close(place)
        _judge(here, leaders)
        return here
    except BaseException:
        os.close(here)
        raise


def _judge(descriptor: int, leaders: dict[int, str]) -> None:
    """Whether those whose links were followed own what they lead to: else they may not be able to read it."""
    owner = os.fstat(descriptor).st_uid
    for uid, link in leaders.items():
        if uid != owner:
            raise UnreadableLog(
                _(
                    "link {link} belongs to uid {uid} but its target belongs to uid {owner}: not followed",
                    link=link,
                    uid=uid,
                    owner=owner,
                )
            )


def expect_own_name(status: os.stat_result, place: os.stat_result) -> None:
    """Unreadable for a hard link that another user may have made, in a folder of his or of all, to what only
    root may read."""
    if os.geteuid() or status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
        return
    shared = bool(place.st_mode & 0o002 or (place.st_mode & 0o020 and place.st_gid))
    if shared or place.st_uid not in (0, status.st_uid):
        raise UnreadableLog(
            _("another user may have made this hard link to a file of uid {uid}: not read", uid=status.st_uid)
        )


def open_folder(path: str) -> int:
    """A descriptor of a named folder, from which its files are reached."""
    place = open_named(path)
    try:
        return os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    finally:
        os.close(place)


def open_subfolder(descriptor: int, parts: list[str]) -> int:
    """A descriptor of a folder below another one, without a link on the way; the other one stays open."""
    here = os.dup(descriptor)
    for part in parts:
        try:
            below = os.open(part, WAY, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def open_listing(descriptor: int) -> int:
    """A folder that was reached, opened to be listed."""
    return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=descriptor)


class Opener:
    """Opens the files of a walk in one process; the folder of the last one is held open."""

    def __init__(self) -> None:
        self._base: tuple[Optional[str], int] = (None, -1)
        self._here: tuple[Optional[tuple[str, str]], int] = (None, -1)

    def open(self, path: str, base: str = "", below: str = "", expected: Optional[Identity] = None) -> int:
        """A descriptor to read a file by: `below` a named folder `base`, or one that was named itself.
        Unreadable when it is none, or not the `expected` one any more."""
        try:
            if below:
                parent, _slash, name = below.rpartition("/")
                if self._here[0] != (base, parent):
                    if self._base[0] != base:
                        self.close()
                        self._base = base, open_folder(base)
                    here = open_subfolder(self._base[1], parent.split("/") if parent else [])
                    if self._here[1] >= 0:
                        os.close(self._here[1])
                    self._here = (base, parent), here
                descriptor = os.open(name, _READ | os.O_NOFOLLOW, dir_fd=self._here[1])
            else:
                descriptor = _reopen(path)
            status = os.fstat(descriptor)
        except OSError as error:
            raise UnreadableLog(strerror(error.errno)) from error
        try:
            if expected is not None and identity_of(status) != expected:
                raise UnreadableLog(_("replaced while it was examined: not read"))
            if below:
                expect_own_name(status, os.fstat(self._here[1]))
            if expected is not None and not stat.S_ISREG(status.st_mode):
                raise UnreadableLog(_("not a regular file: not read"))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def close(self) -> None:
        """Let go of the folders."""
        for _name, descriptor in (self._base, self._here):
            if descriptor >= 0:
                os.close(descriptor)
        self._base, self._here = (None, -1), (None, -1)


def _reopen(path: str) -> int:
    """What was named, opened for real: the very thing that was judged, where /proc allows it."""
    place = open_named(path)
    try:
        kind = os.fstat(place).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
            raise UnreadableLog(_("not a regular file: not read"))
        with suppress(FileNotFoundError):
            return os.open(f"/proc/self/fd/{place}", _READ)
        descriptor = os.open(path, _READ)
        # Without /proc the path is opened a second time, and may have been swapped meanwhile.
        if identity_of(os.fstat(descriptor)) != identity_of(os.fstat(place)):
            os.close(descriptor)
            raise UnreadableLog(_("replaced while it was examined: not read"))
        return descriptor
    finally:
        os.close(place)


@cache
def pseudo_devices() -> frozenset[int]:
    """The device numbers of the file systems that hold no logs, wherever they are mounted."""
    # A system whose root is, say, overlay or tmpfs must not lose all files: its device is taken out below.
    devices = {device for device, kind in _kind_by_device().items() if kind in UNREAL}
    for path in ("/proc", "/sys"):  # also where mountinfo cannot be read
        with suppress(OSError):
            devices.add(os.stat(path).st_dev)
    return frozenset(devices - {os.stat("/").st_dev})


@cache
def local_devices() -> frozenset[int]:
    """The device numbers of file systems that ask nobody outside of the kernel, and so never block."""
    return frozenset(device for device, kind in _kind_by_device().items() if kind in LOCAL)


@cache
def _kind_by_device() -> Mapping[int, str]:
    kinds = {}
    with suppress(OSError):
        for line in lines_of(mountinfo()):
            before, _dash, after = line.partition(" - ")
            major, _colon, minor = before.split()[2].partition(":")
            kinds[os.makedev(int(major), int(minor))] = after.split(" ", 1)[0]
    return kinds
