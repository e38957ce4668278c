"""What root may run or load: what belongs to root, on a way that nobody else can change.

It is asked of the files that the caller hands over: the running machine's, as `host` reads them, or others.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror
from npudoctor.core.mounts import MOUNTINFO, UTAB, user_mount_points
from npudoctor.core.trust.rule import why_not_elsewhere, why_not_entry, why_not_mounted

MOST = 20_000  # folders of one tree
# Debian's Python uses the second name.
PACKAGES = ("site-packages", "dist-packages")
# Folders for some processors below a folder of libraries, where the loader of glibc looks first.
_FOR_PROCESSORS = pattern(
    r"glibc-hwcaps|tls|x86_64|i[3-6]86|haswell|xeon_phi|avx512_1|sse2|nosegneg|aarch64|atomics|"
    r"x86-64-v\d|aarch64-\w+|\w+-v\d+|power\d+|z\d+"
)
_DEEP = 4  # of these below each other: tls/haswell/avx512_1/x86_64
_MOUNTS_LIMIT = 64 << 20  # a line is some hundred bytes, and a container has some
# What an import executes.
_CODE = (".py", ".pyc", ".so")
_ROOT = (0,)


if TYPE_CHECKING:  # of which a run needs nothing
    from typing import Protocol

    class EntryStatus(Protocol):
        """Mode, owner and device of what is at a path, as of lstat or stat."""

        @property
        def mode(self) -> int: ...

        @property
        def uid(self) -> int: ...

        @property
        def dev(self) -> int: ...

        @property
        def is_dir(self) -> bool: ...

    class OwnerLister(Protocol):
        """Lists folders by paths that are free of links."""

        def owners(self, path: str) -> list[tuple[str, int, int]]: ...

    class FileLookup(Protocol):
        """The files by which it is judged; `npudoctor.host.fs.files` implements it and says what each method
        returns.
        """

        @property
        def disk(self) -> OwnerLister: ...

        def lstat(self, path: str) -> Optional[EntryStatus]: ...

        def stat(self, path: str) -> Optional[EntryStatus]: ...

        def real(self, path: str) -> Optional[str]: ...

        def disk_path(self, real: str) -> str: ...

        def names(self, path: str) -> list[str]: ...

        def owners(self, path: str) -> list[tuple[str, int, int]]: ...

        def steps(self, path: str) -> Sequence[tuple[str, EntryStatus]]: ...

        def find_missing_part(self, link: str) -> tuple[Optional[str], Sequence[tuple[str, EntryStatus]]]: ...

        def text(self, path: str, limit: int) -> Optional[str]: ...


def is_trusted_way(files: FileLookup, path: str, owners: Container[int]) -> bool:
    """Return whether a path and every folder and link on the way belong to these users, and nobody else may
    write to them. False where that cannot be seen.
    """
    try:
        steps = files.steps(path)
    # ValueError: the path is relative.
    except (CannotTell, ValueError):
        return False
    reasons = (why_not_entry(step, entry.uid, entry.mode, owners) for step, entry in steps)
    return bool(steps) and not any(reasons)


def _judge_once(
    judge: Callable[[RootTrust, str], Optional[str]],
) -> Callable[[RootTrust, str], Optional[str]]:
    """Decorate a method so that each path is judged once; what cannot be looked at is not trusted."""

    @wraps(judge)
    def answer(trust: RootTrust, path: str) -> Optional[str]:
        # By the name of the method, too: a folder may be fine as a parent and not as a place for libraries.
        reasons, key = trust.reasons, (judge.__name__, path)
        if key not in reasons:
            try:
                reasons[key] = judge(trust, path)
            except CannotTell as unknown:
                reasons[key] = unknown.reason
            except OSError as error:
                reasons[key] = _("{path} cannot be read: {why}", path=path, why=strerror(error.errno))
            except ValueError:
                reasons[key] = _("{path} is not an absolute path", path=path)
        return reasons[key]

    return answer


class RootTrust:
    """Judges paths for root, each once. Every method returns None where the path is safe, else the reason.

    `reasons`: the answers so far, by name of the method and path.
    """

    def __init__(self, files: FileLookup) -> None:
        self._files = files
        self.reasons: dict[tuple[str, str], Optional[str]] = {}
        self._by_users: Optional[tuple[str, ...]] = None
        self._blind = False

    @_judge_once
    def why_not(self, path: str) -> Optional[str]:
        """For a file or folder that exists: it, and all folders and links on the way to it."""
        steps = self._files.steps(path)
        if not steps:
            return _("{path} does not exist", path=path)
        device = steps[0][1].dev
        for step, entry in steps:
            why = why_not_entry(step, entry.uid, entry.mode, _ROOT)
            why = why or why_not_mounted(step, self._mounted_by_users())
            if not why and self._blind:
                why = why_not_elsewhere(step, entry.dev, device)
            if why:
                return why
        return None

    @_judge_once
    def why_not_folder(self, folder: str) -> Optional[str]:
        """For a folder in which names are looked up: others must not be able to add names, or to make it
        where it is missing.
        """
        here = folder
        while self._files.stat(here) is None and here != "/":
            if self._files.lstat(here) is not None:
                break  # a dangling link: who may make its target decides
            here = here.rstrip("/").rpartition("/")[0] or "/"
        why = self.why_not(here)
        entry = self._files.stat(here)
        if why or entry is None:
            return why
        return why_not_entry(here, entry.uid, entry.mode, _ROOT, place=True)

    def why_not_file(self, path: str) -> Optional[str]:
        """For a file, which others must not be able to make where it is missing."""
        missing = path.startswith("/") and self._files.stat(path) is None
        return self.why_not_folder(path) if missing else self.why_not(path)

    def why_not_modules(self, path: str) -> Optional[str]:
        """For an entry of a search path for modules: a folder with all that is in it, a zip file, or a
        missing path.
        """
        if not path.startswith("/"):
            return _("{path} is not an absolute path", path=path or '""')
        entry = self._files.stat(path)
        return self.why_not_tree(path) if entry is not None and entry.is_dir else self.why_not_file(path)

    @_judge_once
    def why_not_entries(self, folder: str) -> Optional[str]:
        """For a folder with every entry in it; a missing folder has none.

        Folders for packages below a standard library are left out: no import by name leads into them.
        """
        why = self.why_not_folder(folder)
        if why:
            return why
        # Entries are judged by their real paths, as mount points are given so.
        here = self._files.real(folder) or folder
        plain = self._is_plain()
        for name, uid, mode in self._files.owners(folder):
            if plain and not uid and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and not mode & 0o022:
                continue  # nothing is wrong with it: what _entry says of most, of which there are thousands
            why = self._why_not_entry_of(here, name, uid, mode)
            if why:
                return why
        return None

    @_judge_once
    def why_not_tree(self, folder: str) -> Optional[str]:
        """For a folder with all that is below it, through links; without its folders for packages."""
        # Tens of thousands of files: below a folder that is judged, no way is walked again for each.
        why = self.why_not_entries(folder)
        todo, visited = [self._files.real(folder)], set[str]()
        while todo and not why:
            here = todo.pop()
            if here is None or here in visited:
                continue
            visited.add(here)
            # Root must not spend minutes on a tree that somebody made large on purpose.
            if len(visited) > MOST:
                return _("{path} has more than {most} folders", path=folder, most=MOST)
            plain = self._is_plain()
            for name, uid, mode in self._files.disk.owners(self._files.disk_path(here)):
                if plain and not uid and not mode & 0o022 and stat.S_ISREG(mode):
                    continue  # as above: most entries by far
                why = why or self._why_not_entry_of(here, name, uid, mode)
                if name in PACKAGES:
                    continue
                if stat.S_ISLNK(mode):
                    todo.append(self._folder_of(f"{here}/{name}"))
                elif stat.S_ISDIR(mode):
                    todo.append(f"{here}/{name}")
        return why

    def why_not_libraries(self, folder: str) -> Optional[str]:
        """For a folder in which the loader looks for libraries: it, its folders for some processors, and
        every entry of these.
        """
        folders = (folder, *self.find_processor_folders(folder))
        return next(filter(None, map(self.why_not_entries, folders)), None)

    @_judge_once
    def why_not_imports(self, folder: str) -> Optional[str]:
        """For the folder of a Python script, which is searched first: all that has the name of a module; and
        others must not be able to add to it.
        """
        why = self.why_not_folder(folder)
        real = self._files.real(folder)
        for name, uid, mode in [] if why or real is None else self._files.owners(folder):
            path = f"{folder.rstrip('/')}/{name}"
            # Only a name that `import` can spell leads into a folder.
            target = self._folder_of(path) if not stat.S_ISREG(mode) and name.isidentifier() else None
            if target is not None:
                why = why or (None if target == real else self.why_not_tree(path))
            elif name.endswith(_CODE):
                why = why or self._why_not_entry_of(real or folder, name, uid, mode)
        return why

    def find_processor_folders(self, folder: str, deep: int = 0) -> Iterator[str]:
        """The folders below a folder of libraries that hold copies for some processors."""
        for name in self._files.names(folder) if deep < _DEEP else ():
            path = f"{folder.rstrip('/')}/{name}"
            entry = self._files.stat(path) if _FOR_PROCESSORS.fullmatch(name) else None
            if entry is not None and entry.is_dir:
                yield path
                yield from self.find_processor_folders(path, deep + 1)

    def _why_not_entry_of(self, folder: str, name: str, uid: int, mode: int) -> Optional[str]:
        """For one entry of a folder that is safe itself; `folder` is free of links."""
        if name in PACKAGES:
            return None
        path = f"{folder.rstrip('/')}/{name}"
        if stat.S_ISLNK(mode):
            return why_not_entry(path, uid, mode, _ROOT) or self._why_not_target(path)
        why = why_not_entry(path, uid, mode, _ROOT, place=True)
        why = why or why_not_mounted(path, self._mounted_by_users())
        return why or (self.why_not(path) if self._blind else None)

    def _why_not_target(self, link: str) -> Optional[str]:
        """For what a link leads to: a folder is one in which names are looked up; what is missing, others
        must not be able to make.
        """
        entry = self._files.stat(link)
        if entry is None:
            missing, steps = self._files.find_missing_part(link)
            why = next(
                filter(None, (why_not_entry(path, step.uid, step.mode, _ROOT) for path, step in steps)), None
            )
            return why or (self.why_not_folder(missing) if missing else None)
        return self.why_not_folder(link) if entry.is_dir else self.why_not(link)

    def _folder_of(self, link: str) -> Optional[str]:
        """The folder to which a link leads; None where it leads to none."""
        entry = self._files.stat(link)
        return self._files.real(link) if entry is not None and entry.is_dir else None

    def _is_plain(self) -> bool:
        """Whether owner and mode of an entry tell all: users mounted nothing, and the mounts are known."""
        return not self._mounted_by_users() and not self._blind

    def _mounted_by_users(self) -> tuple[str, ...]:
        """Mount points whose content a user makes up, uids too: FUSE, and disks that users may mount.

        Without a list of the mounts, as where there is no /proc, no other file system is root's for certain.
        """
        if self._by_users is None:
            texts = {MOUNTINFO: "", UTAB: ""}
            for path in texts:
                # Without /proc, or without permission; `_blind` remembers it.
                with suppress(CannotTell):
                    texts[path] = self._files.text(path, _MOUNTS_LIMIT) or ""
            self._blind = not texts[MOUNTINFO]
            self._by_users = tuple(user_mount_points(texts[MOUNTINFO], texts[UTAB]))
        return self._by_users
