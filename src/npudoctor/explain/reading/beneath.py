"""Folders below a named one, each held open: what is in them, what is mounted there, and where links lead."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, cached_property
from typing import Optional

from npudoctor.core import forked
from npudoctor.core.mounts import LOCAL, mountinfo, parse_mountinfo
from npudoctor.explain.reading import opening
from npudoctor.explain.reading.opening import Identity, identity_of

_LINKS = 40  # as the kernel


class NamedFolder:
    """A named folder: where its entries are, and where links in it lead."""

    def __init__(self, base: str, descriptor: int) -> None:
        self.base, self.descriptor = base, descriptor

    def path(self, parts: tuple[str, ...]) -> str:
        """An entry's path as it is said."""
        return os.path.join(self.base, *parts)

    def resolve_link(self, parts: tuple[str, ...], target: str) -> Optional[bool]:
        """Where a link in one of its folders leads: None out of it; else whether to a folder. OSError when it
        leads to nothing. Only folders below this one are asked."""
        here, todo, links = list(parts), target.split("/")[::-1], 0
        if target.startswith("/"):
            here, todo = [], self._parts_inside(target)
        folder = True
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not here:
                    return None
                here.pop()
                folder = True
                continue
            entry = self._stat_entry(here, part)
            if entry is None:
                return True
            if stat.S_ISLNK(entry[0]):
                links += 1
                if links > _LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if entry[1].startswith("/"):
                    here, todo = [], [*todo, *self._parts_inside(entry[1])]
                else:
                    todo += entry[1].split("/")[::-1]
                continue
            here.append(part)
            folder = stat.S_ISDIR(entry[0])
        return folder

    def _parts_inside(self, target: str) -> list[str]:
        """The rest of an absolute path below this folder, last part first; ".." where it leads elsewhere."""
        rest = target.rstrip("/") + "/"
        if self._real and rest.startswith(self._real.rstrip("/") + "/"):
            return rest[len(self._real.rstrip("/")) + 1 :].split("/")[::-1]
        return [".."]

    def _stat_entry(self, here: list[str], part: str) -> Optional[tuple[int, str]]:
        """Mode and target of an entry; None for what is a file system of its own, which may not answer."""
        folder = opening.open_subfolder(self.descriptor, here)
        try:
            if part in foreign_mounts(_path_of_descriptor(folder)):
                return None
            mode = os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode
            return mode, os.readlink(part, dir_fd=folder) if stat.S_ISLNK(mode) else ""
        finally:
            os.close(folder)

    @cached_property
    def _real(self) -> str:
        return _path_of_descriptor(self.descriptor)


class OpenFolder:
    """One folder, held open."""

    def __init__(self, below: NamedFolder, parts: tuple[str, ...]) -> None:
        self.below, self.parts = below, parts
        place = opening.open_subfolder(below.descriptor, list(parts))
        try:
            self.status = os.fstat(place)
            self.mounts = foreign_mounts(_path_of_descriptor(place))
            self.listing = opening.open_listing(place)
        finally:
            os.close(place)

    def close(self) -> None:
        """Let go of it."""
        os.close(self.listing)


def answers_in_time(descriptor: int, name: str, seconds: float) -> bool:
    """Whether a file system that is mounted in a folder answers in that time."""
    try:
        forked.ask(lambda: os.stat(name, dir_fd=descriptor, follow_symlinks=False), seconds)
    except forked.Late:
        return False
    except OSError:
        pass  # an answer too
    return True


def foreign_mounts(real: str) -> Mapping[str, str]:
    """What is mounted in a folder and no local file system: names and kinds."""
    return _mounts().get(real, {})


@cache
def _mounts() -> Mapping[str, Mapping[str, str]]:
    """The same of all folders. Apart, as it is read once."""
    try:
        mounts = parse_mountinfo(mountinfo())
    except OSError:
        return {}
    by_folder: dict[str, dict[str, str]] = {}
    for mount in mounts.values():
        # What is mounted there is asked in a child with a deadline, or not at all: it may hang.
        if mount.kind not in LOCAL or mount.kind in opening.UNREAL:
            above, _slash, name = mount.point.rpartition("/")
            by_folder.setdefault(above or "/", {})[name] = mount.kind
    return by_folder


@cache
def kernel_folders() -> frozenset[Identity]:
    """The folders of the kernel, whatever is mounted there: in a container /dev is a tmpfs."""
    folders = set()
    for path in ("/proc", "/sys", "/dev"):
        with suppress(OSError):
            folders.add(identity_of(os.stat(path)))
    return frozenset(folders)


def _path_of_descriptor(descriptor: int) -> str:
    """The path of a folder that is held open; "" where /proc does not tell."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""
