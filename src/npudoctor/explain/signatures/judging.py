"""What a row must be to be a signature: every key known, of its type, and a pattern that can be found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional

from npudoctor.core.messages import _
from npudoctor.explain.signatures.patterns import Unsuitable, judged, literals_of

CATEGORIES = (
    "cann-env-not-sourced",
    "missing-library",
    "version-mismatch-torch-npu",
    "version-mismatch-cann",
    "driver-firmware",
    "device-permission",
    "device-busy-or-stale-process",
    "out-of-device-memory",
    "host-memory-shm-ulimit-disk",
    "network-hccl-link-or-ip",
    "port-or-firewall-or-address-in-use",
    "hccl-timeout-desync",
    "rank-table",
    "python-package-missing-or-conflict",
    "te-tbe-toolchain",
    "gcc-glibc-toolchain",
    "nccl-gpu-env",
    "cache-server",
    "script-bug-not-environment",
    "operator-unsupported",
    "container-runtime",
    "ended-from-outside",
    "other",
)
_REQUIRED = {
    "id",
    "category",
    "environment",
    "weight",
    "title",
    "cause",
    "remedy",
    "source",
    "as_of",
}
# A row has to have one of these: what it is found by.
_FOUND_BY = {"patterns", "numbers", "hccl"}
_OPTIONAL = {
    *_FOUND_BY,
    "numbered",
    "near",
    "without",
    "within",
    "echo_of",
    "own",
    "deepest",
    "fallback",
    "checks",
    "codes",
    "era",
    "example",
}


def wrong(row: Mapping[str, Any]) -> Optional[str]:
    """Why a row is no signature; None when it is one."""
    return next(_reasons(row), None)


def _reasons(row: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(_REQUIRED - set(row)):
        yield _("the row lacks {key}", key=key)
    if not _FOUND_BY & set(row):
        yield _("the row lacks {key}", key="patterns")
    for key in sorted(set(row) - _REQUIRED - _OPTIONAL):
        yield _("unknown key {key}", key=key)
    for key, value in row.items():
        if key in _RULES and not _RULES[key](value):
            yield _("{key}: {value} is not what it must be", key=key, value=repr(value)[:80])
    yield from _unsuitable(row)


def _unsuitable(row: Mapping[str, Any]) -> Iterator[str]:
    """Patterns that no scan could find; `near` and `without` of a whole file are looked for by it too."""
    found = {"patterns", *(("near", "without") if row.get("within") == 0 else ())}
    if row.get("fallback"):
        found = set()  # no scan looks for it
    for key in ("patterns", "near", "without"):
        for pattern in row.get(key, ()):
            try:
                literals_of(pattern) if key in found else judged(pattern)
            except Unsuitable as reason:
                yield f"{key}: {reason}"


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(_text(one) for one in value)


def _some_texts(value: object) -> bool:
    return _texts(value) and bool(value)


def _spoken(rule: Callable[[object], bool]) -> Callable[[object], bool]:
    """What has to be said in both languages."""
    return lambda value: (
        isinstance(value, dict) and set(value) == {"en", "zh"} and all(map(rule, value.values()))
    )


def _whole(least: int, most: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _matching(pattern: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and bool(re.fullmatch(pattern, value))


def _numbers(pattern: str) -> Callable[[object], bool]:
    return lambda value: _some_texts(value) and all(re.fullmatch(pattern, one) for one in value)  # type: ignore[attr-defined]


def _example(value: object) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"log", "match"}
        and _text(value["log"])
        and type(value["match"]) is bool
    )


def _era(value: object) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return isinstance(value, str) and bool(str(SpecifierSet(value)))
    except InvalidSpecifier:
        return False


_RULES: Mapping[str, Callable[[Any], bool]] = {
    "id": _matching(r"[a-z0-9]+(-[a-z0-9]+)*"),
    "category": lambda value: value in CATEGORIES,
    "environment": lambda value: type(value) is bool,
    "weight": _whole(0, 100),
    "patterns": _some_texts,
    "numbers": _numbers(r"[1-9]\d{5}"),
    "hccl": _numbers(r"[1-9]\d{0,3}"),
    "numbered": lambda value: type(value) is bool,
    "near": _texts,
    "without": _texts,
    "within": _whole(0, 1000),
    "echo_of": _texts,
    "own": lambda value: type(value) is bool,
    "deepest": lambda value: type(value) is bool,
    "fallback": lambda value: type(value) is bool,
    "title": _spoken(_text),
    "cause": _spoken(_text),
    "remedy": _spoken(_some_texts),
    "checks": _texts,
    "codes": _texts,
    "era": _era,
    "source": _text,
    "as_of": _matching(r"20\d\d-\d\d(-\d\d)?"),
    "example": lambda value: isinstance(value, list) and all(map(_example, value)),
}
