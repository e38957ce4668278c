"""Finds and parses the metadata of installed distributions: .dist-info, .egg-info, and EGG-INFO of eggs.

Not importlib.metadata, 23 ms to import: it knows no --root, and opens files on mounts that may hang.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from npudoctor.core.errors import CannotTell
from npudoctor.core.lazy import pattern
from npudoctor.host.fs.files import Files

# Bytes; a README may be the body of METADATA.
METADATA_LIMIT = 1 << 20

# The folder of an installed distribution's metadata; the last form is that of a development install.
_FORMS = (
    pattern(r"(?P<name>.+?)-(?P<version>\d[^-]*)(?:-.*)?\.(?:dist-info|egg-info|egg)\Z"),
    pattern(r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-.*)?\.(?:dist-info|egg-info|egg)\Z"),
    pattern(r"(?P<name>[^-]+?)(?P<version>)\.egg-info\Z"),
)


def parse_headers(text: str) -> tuple[tuple[str, str], ...]:
    """Parse the headers of a METADATA file; names in lower case, continuation lines joined."""
    headers: list[tuple[str, list[str]]] = []
    # Not splitlines: a licence in a header may hold form feeds, and has lines of blanks where it has none.
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line:
            break
        if line[0] in " \t" and headers:
            headers[-1][1].append(line.strip())
        else:
            name, colon, value = line.partition(":")
            if colon:
                headers.append((name.strip().lower(), [value.strip()]))
    return tuple((name, "\n".join(lines)) for name, lines in headers)


def find_distributions(folder: str, names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Name, version and metadata's path of each that importing from a folder with these names would find."""
    entries = [(entry, f"{folder}/{entry}") for entry in names if entry.endswith("-info")]
    if folder.endswith(".egg"):  # an egg counts where it stands on the search path itself
        entries.insert(0, (folder.rsplit("/", 1)[-1], f"{folder}/EGG-INFO"))
    for entry, path in entries:
        match = next(filter(None, (form.match(entry) for form in _FORMS)), None)
        if match:
            yield match["name"], match["version"], path


def read_metadata(files: Files, folder: str) -> str:
    """The text of its headers; empty when there is none, and where this user may not read it: to
    importlib.metadata it is not there then."""
    try:
        for path in (f"{folder}/METADATA", f"{folder}/PKG-INFO", folder):
            entry = files.stat(path)
            if entry is not None and entry.is_file:
                return files.text(path, METADATA_LIMIT) or ""
    # importlib.metadata skips what it may not read; anything else, such as a dead mount, is unknown.
    except CannotTell as error:
        if not isinstance(error.__cause__, PermissionError):
            raise
    return ""


def read_egg_requirements(files: Files, folder: str) -> list[str]:
    """What an egg's requires.txt asks for, as the values of Requires-Dist headers."""
    if not folder.endswith((".egg-info", "/EGG-INFO")):
        return []
    entry = files.stat(f"{folder}/requires.txt")
    text = files.text(f"{folder}/requires.txt", METADATA_LIMIT) if entry and entry.is_file else None
    return list(_parse_requirements(text or ""))


def _parse_requirements(text: str) -> Iterator[str]:
    """Its lines; a section [extra:marker] says when those below it hold."""
    condition = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            extra, _colon, marker = line.strip("[]").partition(":")
            both = (f'extra == "{extra}"' if extra else "", f"({marker})" if marker else "")
            condition = " and ".join(filter(None, both))
        elif line and not line.startswith("#"):
            yield f"{line} ; {condition}" if condition else line
