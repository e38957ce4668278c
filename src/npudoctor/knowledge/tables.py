"""Reads the tables of this folder, each once and only when somebody asks."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, Optional

from npudoctor.frozen import dataclass


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML document; ValueError when it is none."""
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


@cache
def table(name: str) -> dict[str, Any]:
    """The whole table `name`.toml."""
    with open(os.path.join(os.path.dirname(__file__), f"{name}.toml"), encoding="utf-8") as file:
        return parse_toml(file.read())


@dataclass(frozen=True)
class Required:
    """What a release asks for: a version specifier, where that is written, and when it was looked at."""

    specifier: str
    source: str
    as_of: str


def scipy_for(mindspore: str) -> Optional[Required]:
    """The SciPy that a MindSpore release requires; None when no row is about it.

    ValueError when the release is no version number.
    """
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    release = Version(mindspore)
    for row in table("mindspore")["scipy"]:
        if SpecifierSet(row["versions"]).contains(release, prereleases=True):
            return Required(row["scipy"], row["source"], row["as_of"])
    return None
