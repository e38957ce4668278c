"""Folders on PYTHONPATH whose names contain colons, at which Python splits them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import NamedTuple

from npudoctor.facts.job.working_directory import working_directory
from npudoctor.facts.python.installed_modules import modules_of
from npudoctor.host.host import Host

_MOST = 8  # parts of one name: a time stamp with a zone has four


class SplitFolder(NamedTuple):
    """The folder, and the entries before and after the parts into which it is split."""

    path: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def find_split_folders(host: Host) -> Iterator[SplitFolder]:
    """Yield folders that exist while none of their parts does."""
    entries, start = host.variables.path_list("PYTHONPATH"), 0
    if host.options.root is not None:
        return
    while start < len(entries):
        end = start + 1
        if entries[start].startswith("/") and not _exists(host, entries[start]):
            end = _find_end(host, entries, start) or end
        if end > start + 1:
            path = ":".join(entries[start:end])
            yield SplitFolder(path, tuple(entries[:start]), tuple(entries[end:]))
        start = end


def _find_end(host: Host, entries: list[str], start: int) -> int:
    for end in range(start + 1, min(len(entries), start + _MOST)):
        if _exists(host, entries[end]):
            return 0
        if _exists(host, ":".join(entries[start : end + 1])):
            return end + 1
    return 0


def _exists(host: Host, entry: str) -> bool:
    here = working_directory(host) or "/"
    return bool(entry) and host.files.stat(posixpath.normpath(posixpath.join(here, entry))) is not None


def list_lost_modules(host: Host, folder: str) -> list[str]:
    """Return the modules of a folder that Python certainly finds nowhere else, sorted."""
    names = host.files.names(folder)
    modules = {name[:-3] for name in names if name.endswith(".py")}
    packages = [name for name in names if name.isidentifier()]
    sizes = host.files.sizes(folder, [f"{name}/__init__.py" for name in packages])
    modules.update(name for name, size in zip(packages, sizes) if size >= 0)
    return sorted(name for name in modules if modules_of(host).is_missing(name))
