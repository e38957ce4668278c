"""Compares versions of CANN, and PEP 440 versions of others, with names in rows."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Optional

from npudoctor.core import cann_version
from npudoctor.core.lazy import pattern

if TYPE_CHECKING:
    from packaging.version import Version

Order = tuple[tuple[int, ...], ...]

# The community calls 8.1.RC1 8.1.RC1.beta1; 9.0.0-beta.2 is a release of its own.
_COMMUNITY = pattern(r"(?<=\d)\.beta\d+\Z", re.IGNORECASE)
_PATCH = pattern(r"(\d+\.\d+)\.\d+\Z")
_ANY = pattern(r"(\d+\.\d+)\.X\Z", re.IGNORECASE)


@lru_cache(maxsize=1024)  # a few hundred names in rows, each of which is asked for in every comparison
def cann_order(version: str) -> Optional[Order]:
    """A key by which product versions of CANN sort by age; None when it is not such a version."""
    return cann_version.sort_key(_COMMUNITY.sub("", version))


def is_same_patch_line(version: str, other: str) -> bool:
    """Whether two versions of CANN differ in their last number only: 8.5.0 and 8.5.1, not 8.3.RC1 and RC2."""
    first, second = _PATCH.match(version), _PATCH.match(other)
    return first is not None and second is not None and first[1] == second[1]


def names_cann(name: str, cann: str) -> bool:
    """Whether a name in a row is about this CANN: 8.5.0 for 8.5.1 too, 8.5.X for the line and its betas."""
    line = _ANY.match(name)
    if line is not None:
        return cann_order(cann) is not None and cann.startswith(f"{line[1]}.")
    return cann_order(name) == cann_order(cann) or is_same_patch_line(name, cann)


def cann_span(name: str) -> Optional[tuple[Order, Order]]:
    """The oldest and the newest CANN that a name in a row stands for; None when it is not such a name."""
    line = _ANY.match(name)
    first, last = (cann_order(f"{line[1]}.T0"), cann_order(f"{line[1]}.999")) if line else (
        cann_order(name), cann_order(name))  # fmt: skip
    return None if first is None or last is None else (first, last)


def is_train(name: str, train: str) -> bool:
    """Whether a name in a row is this release train: 26.1.X is 26.1.0 and 26.1.1."""
    line = _ANY.match(name)
    return train.startswith(f"{line[1]}.") if line else name == train


@lru_cache(maxsize=1024)  # each question compares a release with hundreds of rows
def public_version(version: str) -> Optional[Version]:
    """A PEP 440 version without its local part; None if the text is not a version."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(Version(version).public)
    except InvalidVersion:
        return None
