"""What pip can neither replace nor remove, so that a person removes it before pip is started."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from npudoctor.core.frozen import dataclass
from npudoctor.facts.python.installed_modules import list_recorded_files
from npudoctor.host.fs.disk import NO_FILE
from npudoctor.host.host import Host
from npudoctor.host.python.installed_files import find_damage, read_installer, site_of
from npudoctor.host.python.interpreter import Distribution

Argv = tuple[str, ...]


@dataclass(frozen=True)
class Obstacles:
    """What of a copy is to be removed. `linked`: where links that lead to nothing are."""

    linked: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def list_removals(host: Host, copies: Iterable[Distribution]) -> Sequence[Argv]:
    """The lines that remove what ends pip while it replaces these copies: links that lead to nothing, folders
    in the place of files, and metadata without which it uninstalls nothing ("no RECORD file was found").

    uv ends at some of these too. Only what nobody can use is removed, or what pip would remove.
    """
    all_obstacles = [
        host.once(f"obstacles of {copy.folder}", partial(_find_obstacles, host, copy)) for copy in copies
    ]
    linked = dict.fromkeys(path for obstacles in all_obstacles for path in obstacles.linked)
    removed = dict.fromkeys(path for obstacles in all_obstacles for path in obstacles.removed)
    lines: list[Argv] = [("find", *linked, "-xtype", "l", "-delete")] if linked else []
    return [*lines, ("rm", "-r", *removed)] if removed else lines


def has_dead_metadata(host: Host, copy: Distribution) -> bool:
    """Whether pip cannot read what it needs in order to uninstall this copy. What a system or conda installed
    has no RECORD, and is theirs."""
    if not copy.folder.endswith(".dist-info"):
        return False
    paths = [f"{copy.folder}/{name}" for name in ("METADATA", "RECORD")]
    if any(is_dead_link(host, path) for path in paths):
        return True
    entries = list(map(host.files.stat, paths))
    is_readable = (
        all(entry is not None and entry.is_file and entry.size for entry in entries) and copy.headers
    )
    return not is_readable and read_installer(host.files, copy) in ("pip", "uv")


def _find_obstacles(host: Host, copy: Distribution) -> Obstacles:
    site, recorded = site_of(copy), list_recorded_files(host, copy)
    if has_dead_links_for_metadata(host, copy):
        # Without a list nobody knows its files: all links that lead to nothing.
        return Obstacles((site,), (copy.folder,))
    damage = find_damage(host.files, copy, recorded)
    paths = [f"{site}/{path}" for path in damage.missing]
    tops = sorted({f"{site}/{file.path.partition('/')[0]}" for file in recorded})
    # A folder may be such a link too, and then nothing can be seen in it.
    above = {
        f"{site}/{path[:end]}" for path in damage.missing for end, sign in enumerate(path) if sign == "/"
    }
    is_linked = any(is_dead_link(host, path) for path in (*sorted(above), *paths))
    linked = tuple(top for top in tops if is_linked and host.files.lstat(top) is not None)
    sizes = zip(recorded, damage.sizes)
    folders = tuple(f"{site}/{file.path}" for file, size in sizes if size == NO_FILE)
    removed = tuple(path for path in folders if _is_folder(host, path))
    return Obstacles(linked, (*removed, copy.folder) if has_dead_metadata(host, copy) else removed)


def has_dead_links_for_metadata(host: Host, copy: Distribution) -> bool:
    """Return whether the metadata of this copy are links that lead to nothing."""
    return any(is_dead_link(host, f"{copy.folder}/{name}") for name in ("METADATA", "RECORD"))


def is_dead_link(host: Host, path: str) -> bool:
    """Return whether it is a link that leads to nothing."""
    entry = host.files.lstat(path)
    return entry is not None and entry.is_link and host.files.stat(path) is None


def _is_folder(host: Host, path: str) -> bool:
    entry = host.files.lstat(path)
    return entry is not None and entry.is_dir
