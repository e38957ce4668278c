"""What a script adds to the variables of a shell, and how that is joined with what they are already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Callable

from npudoctor.core.frozen import dataclass, field
from npudoctor.core.lazy import pattern
from npudoctor.environment.owners import CannOwners
from npudoctor.host.process.commands import FOLDERS

# Lists of folders, which scripts extend; all else they set.
LISTS = (
    *("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CMAKE_PREFIX_PATH"),
    *("LIBRARY_PATH", "CPATH", "PKG_CONFIG_PATH", "MANPATH"),
)
# The lists that the checks look at; the others are extended and never shortened.
TIDY = LISTS[:3]
# What every shell looks through where PATH is not set: once it is set, it looks nowhere else.
BY_DEFAULT = {"PATH": list(FOLDERS)}
NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*\Z")  # what every shell takes; exported functions have others


@dataclass(frozen=True)
class EnvironmentDiff:
    """`values` are set; the folders of `front` come before the entries of a list, those of `back`
    after them.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    front: Mapping[str, Sequence[str]] = field(default_factory=dict)
    back: Mapping[str, Sequence[str]] = field(default_factory=dict)


def apply_diff(variables: Mapping[str, str], delta: EnvironmentDiff, owners: CannOwners) -> dict[str, str]:
    """The variables with what they lack of the diff.

    A value that names the same folder keeps its spelling, entries keep their places, and folders that do not
    exist are not added.
    """
    result = dict(variables)
    for name, value in delta.values.items():
        if not owners.is_right(name, result.get(name, ""), value):
            result[name] = value
    for name in dict.fromkeys((*delta.front, *delta.back)):
        entries = entries_of(result, name) or BY_DEFAULT.get(name, [])
        front = _missing_folders(delta.front.get(name, ()), entries, owners)
        back = _missing_folders(delta.back.get(name, ()), [*front, *entries], owners)
        if front or back:
            result[name] = ":".join([*front, *entries, *back])
    return result


def entries_of(variables: Mapping[str, str], name: str) -> list[str]:
    """The entries of a list without empty ones, which mean the working directory."""
    return [entry for entry in variables.get(name, "").split(":") if entry]


def drop_entries(
    variables: Mapping[str, str], is_wrong: Callable[[str], bool], names: Sequence[str] = TIDY
) -> dict[str, str]:
    """The variables without the entries that are wrong."""
    result = dict(variables)
    for name in names:
        entries = entries_of(variables, name)
        right_entries = [entry for entry in entries if not is_wrong(entry)]
        if len(right_entries) < len(entries):
            result[name] = ":".join(right_entries)
    return result


def _missing_folders(folders: Iterable[str], entries: Sequence[str], owners: CannOwners) -> list[str]:
    have = {owners.resolve(entry) for entry in entries}
    lacking = []
    for folder in folders:
        real = owners.resolve(folder)
        if real is not None and real not in have:
            have.add(real)
            lacking.append(folder)
    return lacking


def remove_duplicates(variables: Mapping[str, str], owners: CannOwners) -> dict[str, str]:
    """The variables without empty and repeated entries: CANN's own folders are compared without links, others
    as text.
    """
    result = dict(variables)
    for name in TIDY:
        entry_by_folder: dict[str, str] = {}
        for entry in entries_of(variables, name):
            real = owners.resolve(entry) if owners.is_of_ascend(entry) else None
            entry_by_folder.setdefault(real or entry.rstrip("/") or "/", entry)
        value = ":".join(entry_by_folder.values())
        # An empty PATH or LD_LIBRARY_PATH would mean the working directory.
        if variables.get(name) and not value:
            del result[name]
        elif variables.get(name, "") != value:
            result[name] = value
    return result
