"""Compares the RECORD of an installed distribution with the files on the disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.host.fs.disk import CLOSED, LINK, NO_FILE
from npudoctor.host.fs.files import Files
from npudoctor.host.libraries.elf import DamagedElf, Elf
from npudoctor.host.python.interpreter import Distribution

RECORD_LIMIT = 16 << 20
BATCH_SIZE = 2000  # files of one question to the disk
# A row of a file that an import loads, from its suffix to the size. Most rows are of headers, byte code and
# data: the pattern begins with what these lack, so that the search is fast.
_LOADED = pattern(r"(\.(?:py|so(?:\.[\d.]+)?)),(?:sha256=)?([^,\n]*),(\d+)")
# Folders and modules that images for production leave out. Most of them no job imports; torch imports
# torch.testing, and numpy.testing a module of numpy/_core/tests. `find -name "test*" -delete` takes
# numpy/ma/testutils.py, too.
_OPTIONAL_FOLDERS = frozenset(
    "test tests testing _pytest example examples benchmark benchmarks doc".split(" "),
)
_OPTIONAL_MODULE = pattern(r"(?:test\w*|\w+_test|conftest)\.py")
# Of these folders one file is looked for: most of what is left out lies in them, and they go as a whole.
_TEST_FOLDERS = ("test", "tests")


class InstalledFile(NamedTuple):
    """One file of a RECORD: its path below site-packages, its size in bytes when it was installed, and its
    SHA-256 as base64 for names, without the padding."""

    path: str
    size: int
    digest: str = ""


@dataclass(frozen=True)
class DistributionDamage:
    """What is wrong with the files of a distribution. `listed`: how many were looked for.

    `missing`: gone, or a link that leads to nothing. `short`: smaller than installed, and empty or no whole
    ELF file. `closed`: in a folder that this user may not enter. `sizes`: of each that was listed, as it is
    now; -1 where it is gone, CLOSED where that cannot be told, NO_FILE where it is something else, such as
    the folder that a container makes to mount a file that is not there. `mtimes`: when each of these was
    written, in whole seconds.
    """

    listed: int
    missing: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    mtimes: tuple[int, ...] = ()


def site_of(distribution: Distribution) -> str:
    """The site-packages folder of a distribution."""
    return distribution.folder.rpartition("/")[0]


def read_installer(files: Files, distribution: Distribution) -> str:
    """Who installed it, by its own word: pip, uv, conda; "" if it does not say."""
    path = f"{distribution.folder}/INSTALLER"
    entry = files.stat(path)
    text = files.text(path, 64) if entry is not None and entry.is_file else None
    return (text or "").strip()


def read_recorded_files(files: Files, distribution: Distribution) -> list[InstalledFile]:
    """The modules and libraries in a distribution's RECORD; none if it has no RECORD, as egg-info."""
    return read_record(files, distribution)[0]


def read_record(files: Files, distribution: Distribution) -> tuple[list[InstalledFile], list[InstalledFile]]:
    """The modules and libraries in a distribution's RECORD: those that must be there, and those that an image
    may leave out as long as nothing imports them."""
    if not distribution.folder.endswith(".dist-info"):
        return [], []
    entry = files.stat(f"{distribution.folder}/RECORD")
    text = files.text(f"{distribution.folder}/RECORD", RECORD_LIMIT) if entry and entry.is_file else None
    needed: list[InstalledFile] = []
    optional: list[InstalledFile] = []
    for match in _LOADED.finditer(text) if text else ():
        path = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.end(1)]
        if path[0] not in '"./':
            *folders, name = path.split("/")
            if ".." in folders:  # anybody writes a RECORD, and its paths end up in lines that root types
                continue
            is_needed = _OPTIONAL_FOLDERS.isdisjoint(folders) and (
                "test" not in name or _OPTIONAL_MODULE.fullmatch(name) is None
            )
            (needed if is_needed else optional).append(InstalledFile(path, int(match[3]), match[2]))
    return needed, optional


def find_left_out(files: Files, site: str, optional: Sequence[InstalledFile]) -> list[str]:
    """Those of the files that an image may leave out that are not there. Empty ones are not asked for:
    without an empty `__init__.py` Python imports too."""
    by_folder: dict[str, list[str]] = {}
    for file in optional:
        if file.size:
            by_folder.setdefault(file.path.rpartition("/")[0], []).append(file.path)
    asked: list[str] = []
    for folder, paths in by_folder.items():
        asked += paths[:1] if folder.rpartition("/")[2] in _TEST_FOLDERS else paths
    gone = {path for path, size in zip(asked, files.sizes(site, asked) if asked else ()) if size == -1}
    # Where the one is gone, all of its folder are asked for.
    more = [
        path
        for folder, paths in by_folder.items()
        for path in paths[1:]
        if folder.rpartition("/")[2] in _TEST_FOLDERS and paths[0] in gone
    ]
    gone |= {path for path, size in zip(more, files.sizes(site, more) if more else ()) if size == -1}
    return [file.path for file in optional if file.path in gone]


def find_damage(
    files: Files, distribution: Distribution, recorded: Sequence[InstalledFile]
) -> DistributionDamage:
    """What of its list is gone or cut short. Other sizes are no damage: people patch modules, and strip
    libraries."""
    site = site_of(distribution)
    missing, short, closed, sizes, mtimes = [], [], [], [], []
    for path, size, current_size, mtime in _compare_sizes(files, site, recorded):
        sizes.append(current_size)
        mtimes.append(mtime)
        if current_size == NO_FILE:
            continue
        if current_size == CLOSED:
            closed.append(path)
            continue
        if current_size < 0 and (
            size or not path.endswith("__init__.py")
        ):  # without an empty one Python imports too
            missing.append(path)
        elif current_size < size and (
            not current_size or (".so" in path and not _is_complete(files, f"{site}/{path}", current_size))
        ):
            short.append(path)
    return DistributionDamage(
        len(recorded), tuple(missing), tuple(short), tuple(closed), tuple(sizes), tuple(mtimes)
    )


def share_of_intact_files(files: Files, distribution: Distribution) -> float:
    """The share of a distribution's recorded files, from 0 to 1, that have their recorded size; 0 without a
    RECORD."""
    recorded = read_recorded_files(files, distribution)
    intact = sum(
        size == current_size
        for _path, size, current_size, _mtime in _compare_sizes(files, site_of(distribution), recorded)
    )
    return intact / len(recorded) if recorded else 0.0


def _compare_sizes(
    files: Files, site: str, recorded: Sequence[InstalledFile]
) -> Iterator[tuple[str, int, int, int]]:
    for start in range(0, len(recorded), BATCH_SIZE):
        batch = recorded[start : start + BATCH_SIZE]
        current_sizes, mtimes = files.stamps(site, [file.path for file in batch])
        for file, size, mtime in zip(batch, current_sizes, mtimes):
            if size == LINK:
                # uv and others may install links to a store, which may have been emptied: the target counts.
                entry = files.stat(f"{site}/{file.path}")
                size = -1 if entry is None else entry.size if entry.is_file else NO_FILE
            yield file.path, file.size, size, mtime


def _is_complete(files: Files, path: str, size: int) -> bool:
    """Whether everything that an ELF file's program headers describe is in the file; True for a link."""
    entry = files.lstat(path)
    if entry is None or not entry.is_file:
        return True
    try:
        with files.open_file(path) as file:
            elf = Elf(file.read, size, path)
            head = elf.header
            # Jobs run on 64-bit machines only.
            if not elf.is_64_bit:  # 32 bits: not a machine that trains
                return True
            ends = [segment.start + segment.size for segment in elf.segments]
    except (DamagedElf, FileNotFoundError):
        return False
    return max([head.segments + head.segment_size * head.segment_count, *ends]) <= size


def is_complete_elf(files: Files, path: str) -> bool:
    """Whether an ELF file is as long as its program headers say."""
    entry = files.stat(path)
    return entry is None or _is_complete(files, path, entry.size)
