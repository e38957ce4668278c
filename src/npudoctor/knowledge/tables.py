"""Reads the tables in the folder `tables`, each once and when it is first needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.parsing import toml_of

BUILT_IN = "built-in"
FOLDER = os.path.join(os.path.dirname(__file__), "tables")


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML document; ValueError when it is none."""
    return toml_of(text)


@cache
def read_table(name: str) -> str:
    """The text of the table `name`.toml."""
    with open(os.path.join(FOLDER, f"{name}.toml"), encoding="utf-8") as file:
        return file.read()


@cache
def load_table(name: str) -> dict[str, Any]:
    """The whole table `name`.toml."""
    return parse_toml(read_table(name))


def list_tables() -> list[str]:
    """The names of all tables, sorted."""
    return sorted(name[: -len(".toml")] for name in os.listdir(FOLDER) if name.endswith(".toml"))


@dataclass(frozen=True)
class KnowledgeRow:
    """One row of a table. `origin`: the file that it comes from, or BUILT_IN."""

    values: dict[str, Any]
    origin: str = BUILT_IN

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def texts(self, key: str) -> tuple[str, ...]:
        """A value that is a text or a list of texts, as a tuple; empty if the row has no such key."""
        value = self.values.get(key, ())
        return (value,) if isinstance(value, str) else tuple(value)


def built_in_rows(name: str, section: str) -> list[KnowledgeRow]:
    """Our own rows of a section."""
    return [KnowledgeRow(values) for values in load_table(name)[section]]


@dataclass(frozen=True)
class RequiredVersion:
    """A version that a release requires: the specifier, its source, and the date when that was read."""

    specifier: str
    source: str
    as_of: str


def find_required_scipy(
    mindspore: str, rows: Optional[Sequence[KnowledgeRow]] = None
) -> Optional[RequiredVersion]:
    """The SciPy that a MindSpore release requires; None when no row is about it. `rows`: instead of ours.

    ValueError when the release is no version number.
    """
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    release = Version(mindspore)
    for row in built_in_rows("mindspore", "scipy") if rows is None else rows:
        if SpecifierSet(row["versions"]).contains(release, prereleases=True):
            return RequiredVersion(row["scipy"], row["source"], row["as_of"])
    return None
