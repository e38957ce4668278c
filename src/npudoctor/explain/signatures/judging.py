"""Validates rows of signatures: known keys, values of the right type, patterns that a scan can find."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Callable

from npudoctor.core.messages import _
from npudoctor.explain.signatures.patterns import UnsuitablePattern, analyse, parse_pattern

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
    "consequence",
    "elsewhere",
    "checks",
    "codes",
    "era",
    "example",
}


def find_faults(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a row, as sentences; nothing for a valid signature."""
    for key in sorted(_REQUIRED - set(row)):
        yield _("the row lacks {key}", key=key)
    if not _FOUND_BY & set(row):
        yield _("the row lacks {key}", key="patterns")
    for key in sorted(set(row) - _REQUIRED - _OPTIONAL):
        yield _("unknown key {key}", key=key)
    for key, value in row.items():
        if key in _RULES and not _RULES[key](value):
            yield _("{key}: {value} is not valid", key=key, value=repr(value)[:80])
    # Patterns that no scan could find. It looks for none of a fallback, and for `near` and `without` only
    # where they may be anywhere in the file.
    in_file = ("near", "without") if row.get("within") == 0 else ()
    scanned = () if row.get("fallback") else ("patterns", *in_file)
    texts = [(key, text) for key in ("patterns", "near", "without") for text in row.get(key, ())]
    for key, pattern in texts:
        try:
            analyse(pattern) if key in scanned else parse_pattern(pattern)
        except UnsuitablePattern as reason:
            yield f"{key}: {reason}"


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _some_texts(value: object) -> bool:
    return _texts(value) and bool(value)


def _bilingual(rule: Callable[[object], bool], value: object) -> bool:
    """What has to be said in both languages."""
    return isinstance(value, dict) and set(value) == {"en", "zh"} and all(map(rule, value.values()))


def _is_whole(least: int, most: int, value: object) -> bool:
    return type(value) is int and least <= value <= most


def _matches(pattern: str, value: object) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(pattern, value))


def _numbers(pattern: str, value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_matches(pattern, number) for number in value)


def _flag(value: object) -> bool:
    return type(value) is bool


def _example(value: object) -> bool:
    """Apart, as _RULES has it."""
    return (
        isinstance(value, dict)
        and set(value) == {"log", "match"}
        and _text(value["log"])
        and type(value["match"]) is bool
    )


def _elsewhere(value: object) -> bool:
    """Apart, as _RULES has it."""
    return (
        isinstance(value, dict)
        and set(value) == {"what", "where"}
        and all(_bilingual(_text, part) for part in value.values())
    )


def _era(value: object) -> bool:
    """A range of releases. Apart, as _RULES has it."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return isinstance(value, str) and bool(str(SpecifierSet(value)))
    except InvalidSpecifier:
        return False


_RULES: Mapping[str, Callable[[Any], bool]] = {
    "id": partial(_matches, r"[a-z0-9]+(-[a-z0-9]+)*"),
    "category": lambda value: value in CATEGORIES,
    "environment": _flag,
    "weight": partial(_is_whole, 0, 100),
    "patterns": _some_texts,
    "numbers": partial(_numbers, r"[1-9]\d{5}"),
    "hccl": partial(_numbers, r"[1-9]\d{0,3}"),
    "numbered": _flag,
    "near": _texts,
    "without": _texts,
    "within": partial(_is_whole, 0, 1000),
    "echo_of": _texts,
    "own": _flag,
    "deepest": _flag,
    "fallback": _flag,
    "consequence": _flag,
    "elsewhere": _elsewhere,
    "title": partial(_bilingual, _text),
    "cause": partial(_bilingual, _text),
    "remedy": partial(_bilingual, _some_texts),
    "checks": _texts,
    "codes": _texts,
    "era": _era,
    "source": _text,
    "as_of": partial(_matches, r"20\d\d-\d\d(-\d\d)?"),
    "example": lambda value: isinstance(value, list) and all(map(_example, value)),
}
