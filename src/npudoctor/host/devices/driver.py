"""The Ascend driver and firmware packages: where they are, what they say, how versions are ordered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.host.devices.cann_info import settings
from npudoctor.host.fs.files import Files

RECORD = "/etc/ascend_install.info"
USUAL = "/usr/local/Ascend"
LIBRARY = "libascend_hal.so"

_TOKEN = pattern(r"\d+|[a-z]+")
_BOUND = pattern(r"(>=|<=|>|<|==?)?[ \t]*([\w.]+)\Z")
# Words in a version come before numbers: 25.0.rc1 is before 25.0.0.
_WORDS = {"alpha": 0, "t": 0, "beta": 1, "b": 1, "rc": 2}

_LONGEST = 99  # characters of a version; digits without end are no number to Python either

Key = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Package:
    """The driver or the firmware package as its version.info says; keys in lower case."""

    folder: str
    settings: Mapping[str, str]

    @property
    def version(self) -> Optional[str]:
        return self.settings.get("version") or None

    @property
    def info(self) -> str:
        """The file that says so."""
        return f"{self.folder}/version.info"


def install_record(files: Files) -> dict[str, str]:
    """What the installers wrote down of driver and firmware; empty where that is missing or unreadable."""
    try:
        return settings(files.text(RECORD, 1 << 16) or "")
    except CannotTell:
        return {}


def package(files: Files, kind: str) -> Optional[Package]:
    """The package "driver" or "firmware"; None when it is not installed here.

    CannotTell when its version.info is there and cannot be read.
    """
    for folder in folders(files, kind):
        text = files.text(f"{folder}/version.info", 1 << 16)
        if text is not None:
            return Package(folder, settings(text))
    return None


def folders(files: Files, kind: str) -> Iterator[str]:
    """Where it may be: where the record says, then the usual place."""
    recorded = install_record(files).get(f"{kind}_install_path_param", "").rstrip("/")
    roots = [recorded, USUAL] if recorded.startswith("/") else [USUAL]
    yield from (f"{root}/{kind}" for root in dict.fromkeys(roots))


def libraries(files: Files) -> Iterator[str]:
    """The driver's own libascend_hal.so, by era directly in lib64 or in its folder driver."""
    for folder in folders(files, "driver"):
        for place in ("lib64/driver", "lib64", "lib64/common"):
            path = f"{folder}/{place}/{LIBRARY}"
            if files.stat(path) is not None:
                yield path


def has_library(files: Files, listed: Sequence[str]) -> bool:
    """Whether a libascend_hal.so is in the driver's folders, or in one of those on LD_LIBRARY_PATH."""
    if next(libraries(files), None):
        return True
    # CANN's devlib and stub folders hold one for builds that drives nothing.
    real = (
        folder
        for folder in listed
        if folder.startswith("/") and not {"devlib", "stub"} & set(folder.split("/"))
    )
    return any(files.stat(f"{folder}/{LIBRARY}") is not None for folder in real)


def key(version: str) -> Key:
    """A version to compare, in natural order: 7.7.0.1.231 is before 7.7.99, 25.0.rc1 before 25.0.0."""
    tokens = _TOKEN.findall(version[:_LONGEST].lower())
    return tuple((3, int(token)) if token.isdecimal() else (_WORDS.get(token, 2), -1) for token in tokens)


def starts(version: str, prefix: str) -> bool:
    """Whether a version is of a line: 24.1.rc3 is of 24.1, and of 24.1.RC3; 24.10 is not of 24.1."""
    line = key(prefix)
    return key(version)[: len(line)] == line


def within(version: str, wanted: str) -> Optional[bool]:
    """Whether a version is what is wanted: a plain one is the least; [a,b], (a,b) and ">=a, <=b" are ranges.

    An upper bound is for all that begins with it: 7.7.0.1 is within [7.0,7.7]. None when it makes no sense.
    """
    wanted = wanted.strip().strip('"').strip()
    bounds = wanted.strip("[]()").split(",")
    if wanted[:1] in ("[", "(") and wanted[-1:] in ("]", ")") and len(bounds) == 2:
        low, high = (bound.strip() for bound in bounds)
        texts = [(">=" if wanted[0] == "[" else ">") + low, ("<=" if wanted[-1] == "]" else "<") + high]
    else:
        texts = wanted.split(",")
    answers = [_holds(version, text.strip()) for text in texts]
    return None if None in answers else all(answers)


def groups(value: str) -> list[tuple[str, ...]]:
    """The bracket groups of a comma list: "[a,b],[c]" is (a, b), (c)."""
    return [
        tuple(part.strip() for part in group.split(",") if part.strip())
        for group in re.findall(r"\[([^\[\]]*)\]", value)
    ]


def _holds(version: str, text: str) -> Optional[bool]:
    match = _BOUND.match(text)
    if match is None or not key(version) or not key(match[2]):
        return None
    mine, other = key(version), key(match[2])
    sign = match[1] or ">="
    if sign in ("=", "=="):
        return starts(version, match[2])
    if sign == ">=":
        return mine >= other
    if sign == ">":
        return mine > other and not starts(version, match[2])
    return (mine < other and not starts(version, match[2])) or (sign == "<=" and starts(version, match[2]))
