"""What training leaves in temporary folders, and the locks of builds of PyTorch's extensions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.host.fs.files import Files, PathStatus

MANY = 100_000  # names of one folder that are read: /tmp may hold millions
MOST = 500  # folders of one look; a job that leaks may leave more
BUILDS = 2000  # extensions whose locks are looked for
LOCKS = ("lock", "build.lock")
# What torch.utils.cpp_extension leaves beside its lock.
_BUILT = ("build.ninja", ".ninja_log", ".cpp", ".cc", ".cu", ".cuh", ".o", ".so")

# How such a folder is named, and what makes it.
_KINDS = (("pymp-", "Python"), ("torch-shm-dir-", "PyTorch"))


@dataclass(frozen=True)
class TempFolder:
    """One folder. `names`: the entries in it; None where this user may not look."""

    path: str
    entry: PathStatus
    library: str
    names: Optional[tuple[str, ...]] = None


def library_of(name: str) -> Optional[str]:
    """The library that makes folders of such a name; None for any other name."""
    return next((made_by for prefix, made_by in _KINDS if name.startswith(prefix)), None)


def find_temp_folders(files: Files, place: str) -> Iterator[TempFolder]:
    """The folders of known libraries in a temporary folder, at most MOST."""
    real = files.real(place)
    count = 0
    for name in files.names(real, MANY) if real else ():
        library = library_of(name)
        path = f"{(real or '').rstrip('/')}/{name}"
        entry = files.lstat(path) if library else None
        if entry is not None and entry.is_dir and library and count < MOST:
            count += 1
            names: Optional[tuple[str, ...]] = None
            # Another user's folder, mode 0700.
            with suppress(CannotTell):
                names = tuple(files.names(path, MANY))
            yield TempFolder(path, entry, library, names)


def find_build_locks(files: Files, root: str) -> Iterator[str]:
    """The locks below TORCH_EXTENSIONS_DIR: of each extension, and of each extension below a folder for a
    Python version.
    """
    real = files.real(root)
    folder_count = 0
    for name in files.names(real, BUILDS) if real else ():
        folders = [f"{real}/{name}"]
        if name.startswith("py"):  # py311_cpu, py310_cu121
            folders += [f"{real}/{name}/{inner}" for inner in files.names(folders[0], BUILDS)]
        for folder in folders:
            folder_count += 1
            for lock in LOCKS if folder_count <= BUILDS else ():
                entry = files.lstat(f"{folder}/{lock}")
                # FileBaton of torch makes an empty file.
                if entry is None or not entry.is_file or entry.size:
                    continue
                # The variable may name any place, and others call a lock so too (dpkg's lies in
                # /var/lib/dpkg). A build that has just begun has nothing but its lock.
                names = set(files.names(folder, MANY)) - set(LOCKS)
                if not names or any(entry_name.endswith(_BUILT) for entry_name in names):
                    yield f"{folder}/{lock}"
