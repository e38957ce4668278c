"""Where MindSpore's dataset cache server leaves things: sockets, logs, spill folders. Facts only, no verdict.

What is judged for removal is reached through directory descriptors opened without following links
(host/fs/walk.py); see proof/ for the rules.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Optional, TypeVar

from npudoctor.core.frozen import dataclass, field
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror
from npudoctor.host.fs.disk import PathStatus, entry_from_stat
from npudoctor.host.fs.walk import Parent, open_directory, stat_entries

# The name in MindSpore 2.7 and 2.10, and the one up to at least 2.0.0a0.
PROGRAMS = ("dataset-cache-server", "cache_server")
# The same in all versions; only the folder differs.
SOCKET = pattern(r"cache_server_p([0-9]{1,5})\Z")
# What our own removal renames a socket to before it unlinks it; see fixing/actions/removal.py.
PARKED = pattern(r"\.(cache_server_p[0-9]{1,5})\.npudoctor\.[0-9a-f]+\Z")
# Three beginnings: what 2.7 writes, what its documentation says, and what old versions wrote.
LOG = pattern(r"(mindspore|dataset-cache-server|cache_server)\..*\.log\.[A-Z]+\.[0-9-]+\.([0-9]{1,10})\Z")
# The server makes up 36 random characters.
SPILL = pattern(r"[a-z0-9]{36}\Z")
# The names that the server's storage manager gives its files.
CONTAINER = pattern(r"IMG[0-9]{5}\.LB\Z")

# Anybody may fill /tmp. Of one other owner so much is looked at, and OTHERS times that of all others
# together; the rest is counted.
LOGINS = 200  # folders of login names
EACH = 1000  # socket files
NAMES = 250_000  # names like sockets' in the folders of one owner, or of one owner in folders of root's
OTHERS = 10

Key = TypeVar("Key", str, int)


@dataclass(frozen=True)
class SocketFile:
    """A file at one of the four places of a cache server's socket.

    `old` places belong to the versions whose segments had mode 0666. `name` is the file's own name, `port`
    the port in its original name; both differ for a socket that a killed removal left parked.
    """

    directory: str
    name: str
    port: int
    old: bool
    entry: PathStatus
    parents: tuple[Parent, ...]
    parked: bool = False

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.name}"

    @property
    def original(self) -> str:
        """The path by which the server knows the socket."""
        return f"{self.directory}/cache_server_p{self.port}"

    @property
    def key(self) -> int:
        """ftok(path, 'a') of this very file, as the server computed it; unsigned, 32 bits."""
        return ftok(self.entry.dev, self.entry.ino)


def ftok(device: int, inode: int) -> int:
    """The System V key of a file for the project id 'a', from the numbers of lstat: no link is followed."""
    # glibc, sysvipc/ftok.c: project id, 8 bits of the device, 16 bits of the inode.
    return 0x61 << 24 | (device & 0xFF) << 16 | (inode & 0xFFFF)


@dataclass(frozen=True)
class SocketPlaces:
    """The directories that may hold sockets, each with whether it belongs to an older version.

    `passed`: by owner (uid), how many folders and links in place of login names are not looked into.
    """

    directories: tuple[tuple[str, bool], ...]
    passed: Mapping[int, int]


def iterate_places(tmp: str = "/tmp") -> Iterator[tuple[str, bool]]:  # noqa: S108
    """The directories that may hold sockets, each with whether it belongs to an older version."""
    return iter(find_places(tmp).directories)


def find_places(tmp: str = "/tmp") -> SocketPlaces:  # noqa: S108
    """The same with what is left out. The last pattern has one directory for each login name: our own come
    first, and of any other owner at most LOGINS.
    """
    base = f"{tmp}/mindspore"
    # The folders, and our own links, with their owners; how many links others put there, which nobody
    # follows. Files are passed over for next to nothing.
    owners: dict[str, int] = {}
    links: Counter[int] = Counter()
    try:
        with open_directory(base) as (descriptor, _parents), os.scandir(descriptor) as entries:
            for entry in entries:
                # Gone since it was listed.
                with suppress(FileNotFoundError):
                    link = entry.is_symlink()
                    # `cache` is in the list of places already.
                    if not (link or entry.is_dir(follow_symlinks=False)) or entry.name == "cache":
                        continue
                    uid = entry.stat(follow_symlinks=False).st_uid
                    if link and uid not in trusted_owners():
                        links[uid] += 1
                    elif not SOCKET.match(_unparked_name(entry.name)):
                        owners[entry.name] = uid
    except OSError:
        owners, links = {}, Counter()
    logins, left_out = limit_by_owner({name: owners[name] for name in sorted(owners)}, LOGINS)
    # The folder of r1.0, the two of the sources in between, then that of 2.x for each login name.
    first = ((tmp, True), (f"{base}/cache", True), (base, False))
    return SocketPlaces(
        (*first, *((f"{base}/{name}", False) for name in logins)), dict(links + Counter(left_out))
    )


def trusted_owners() -> frozenset[int]:
    """The uids whose files are never too many: our own and root's."""
    return frozenset((0, os.geteuid()))


def limit_by_owner(owners: Mapping[Key, int], most: int) -> tuple[list[Key], dict[int, int]]:
    """The things in their order, ours and root's first, of each other owner at most `most`; and how many were
    left out, by uid.

    Whoever fills a folder with junk leaves out nothing but their own things.
    """
    own = trusted_owners()
    selected = [key for key, uid in owners.items() if uid in own]
    ours = len(selected)
    count: Counter[int] = Counter()
    for key, uid in owners.items():
        if uid not in own:
            count[uid] += 1
            if count[uid] <= most and len(selected) - ours < OTHERS * most:
                selected.append(key)
    selected_count = Counter(owners[key] for key in selected[ours:])
    return selected, dict(count - selected_count)


@dataclass(frozen=True)
class FoundSockets:
    """The candidates at all places.

    `hidden`: folders that we have no right to look into. `unseen`: (path, reason) of those that could not be
    looked into for another reason. `passed`: by owner, how many candidates are beyond what is judged.
    """

    sockets: tuple[SocketFile, ...]
    hidden: tuple[str, ...] = ()
    unseen: tuple[tuple[str, str], ...] = ()
    passed: Mapping[int, int] = field(default_factory=dict)


def socket_files(
    tmp: str = "/tmp",  # noqa: S108
    where: Optional[SocketPlaces] = None,
    keys: Collection[int] = (),
) -> FoundSockets:
    """The candidates at all places, and where we could not look.

    `keys`: those of the existing segments; what may prove one of them is never left out.
    """
    candidates: list[SocketFile] = []
    hidden: list[str] = []
    unseen: dict[str, str] = {}
    passed: Counter[int] = Counter()
    allowed_names: dict[int, int] = {}
    for directory, old in (where or find_places(tmp)).directories:
        try:
            with open_directory(directory) as (descriptor, parents):
                owner = parents[-1].uid
                ports = {}  # of the names that may be a socket's
                for name in os.listdir(descriptor):
                    match = SOCKET.match(_unparked_name(name))
                    if match:
                        ports[name] = int(match.group(1))
                # The names that we gave come last.
                names = {
                    name: ports[name] for name in sorted(ports, key=lambda name: (name.startswith("."), name))
                }
                if owner not in trusted_owners():
                    most = allowed_names.get(owner, NAMES)
                    allowed_names[owner] = most - len(names)
                    passed[owner] += max(0, len(names) - most)
                    names = dict(islice(names.items(), max(0, most)))
                elif len(names) > NAMES:
                    names, beyond = _limit_names_by_owner(descriptor, names)
                    passed.update(beyond)
                for name, entry in stat_entries(descriptor, names):
                    parked = _unparked_name(name) != name
                    candidates.append(SocketFile(directory, name, names[name], old, entry, parents, parked))
        # Others' folders have mode 0700: reported, not an error.
        except PermissionError:
            hidden.append(directory)
        # No server of that scheme ever ran here.
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            # open() with O_NOFOLLOW.
            link = error.errno == errno.ELOOP
            unseen[str(error.filename or directory)] = (
                _("it is a symbolic link, and links are not followed") if link else strerror(error.errno)
            )
    sockets, left_out = _choose_sockets(candidates, keys)
    return FoundSockets(sockets, tuple(hidden), tuple(unseen.items()), +(passed + Counter(left_out)))


def _limit_names_by_owner(descriptor: int, names: Mapping[str, int]) -> tuple[dict[str, int], dict[int, int]]:
    """The sockets of a folder in which everybody may create files, at most NAMES of each owner, and how many
    are beyond, by uid: what others pile up must not count against the owner of the folder.
    """
    count: Counter[int] = Counter()
    selected = {}
    for name, entry in stat_entries(descriptor, names):
        if entry.is_socket:
            count[entry.uid] += 1
            if count[entry.uid] <= NAMES:
                selected[name] = names[name]
    return selected, {uid: number - NAMES for uid, number in count.items() if number > NAMES}


def _choose_sockets(
    candidates: Sequence[SocketFile], keys: Collection[int]
) -> tuple[tuple[SocketFile, ...], dict[int, int]]:
    """At most EACH of each owner, the newest first, in the order of their places; and how many are left out,
    by uid.
    """
    # The usual case: nobody has piled up anything.
    if len(candidates) <= EACH:
        return tuple(candidates), {}
    order = sorted(range(len(candidates)), key=lambda at: -candidates[at].entry.mtime_ns)
    sure = {at for at in order if candidates[at].key in keys}
    plain = {
        at: candidates[at].entry.uid for at in order if at not in sure and candidates[at].entry.is_socket
    }
    selected, left_out = limit_by_owner(plain, EACH)
    return tuple(candidates[at] for at in sorted({*sure, *selected})), left_out


def _unparked_name(name: str) -> str:
    parked = PARKED.match(name)
    return parked.group(1) if parked else name


@dataclass(frozen=True)
class SpillFolder:
    """A directory that may hold spilled data: itself, what is in it, and the way to it."""

    path: str
    entry: PathStatus
    files: tuple[tuple[str, PathStatus], ...]
    parents: tuple[Parent, ...]

    @property
    def newest(self) -> Optional[int]:
        """The newest mtime of its files, in whole seconds; None when it is empty."""
        return max((entry.mtime_ns // 1_000_000_000 for _name, entry in self.files), default=None)

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(entry.size for _name, entry in self.files)

    @property
    def plain(self) -> bool:
        """Whether it contains nothing but what a cache server puts there, all of its owner."""
        return all(
            CONTAINER.match(name) and file.is_file and file.nlink == 1 and file.uid == self.entry.uid
            for name, file in self.files
        )


def spill_folder(path: str) -> Optional[SpillFolder]:
    """The folder as it is now; None when it is gone or no directory. OSError for a link (ELOOP), or when we
    may not look into it.
    """
    try:
        with open_directory(path) as (descriptor, parents):
            entry = entry_from_stat(os.fstat(descriptor))
            files = tuple(stat_entries(descriptor, os.listdir(descriptor)))
            return SpillFolder(path, entry, files, parents[:-1])
    except (FileNotFoundError, NotADirectoryError):
        return None
