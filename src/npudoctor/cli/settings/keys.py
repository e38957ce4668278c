"""The keys of the configuration: what each may be, in a file, a variable or a flag."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Callable, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _

REASONS = "ignore"
LONGEST = 86400.0  # a run that may take longer than a day is a mistake
LONGEST_NAME, LONGEST_LABEL = 254, 63  # of a host, with its last dot


class InvalidValue(ValueError):
    """A value that its key does not take; the text completes a sentence that names the key."""


@dataclass(frozen=True)
class ConfigKey:
    """How a value is read, and what holds when nobody says anything. `in_file`: it stood in a file."""

    parse: Callable[[Any, bool], Any]
    default: Any = None


def _one_of(*choices: str) -> Callable[[Any, bool], str]:
    def parse(raw: Any, in_file: bool) -> str:
        if raw not in choices:
            text = _("{value!r} is not one of {choices}")
            raise InvalidValue(text.format(value=raw, choices=", ".join(choices)))
        return str(raw)

    return parse


def _number(raw: Any, in_file: bool) -> float:
    """A number; text is converted unless it came from a file. NaN for anything else."""
    try:
        if isinstance(raw, bool) or (in_file and isinstance(raw, str)):
            raise ValueError
        return float(raw)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _seconds(raw: Any, in_file: bool) -> float:
    value = _number(raw, in_file)
    if not 0 < value <= LONGEST:
        text = _("{value!r} is not a number of seconds above 0 and up to {most:.0f}")
        raise InvalidValue(text.format(value=raw, most=LONGEST))
    return value


def _patience(raw: Any, in_file: bool) -> float:
    value = _number(raw, in_file)
    if not 0 <= value <= LONGEST:
        text = _("{value!r} is not a number of seconds from 0 to {most:.0f}")
        raise InvalidValue(text.format(value=raw, most=LONGEST))
    return value


def _addresses(raw: Any, in_file: bool) -> tuple[str, ...]:
    """Addresses and host names, each once; nobody is asked whether they exist."""
    items = raw.split(",") if isinstance(raw, str) and not in_file else raw
    if not isinstance(items, (list, tuple)) or not items or not all(isinstance(item, str) for item in items):
        raise InvalidValue(_("{value!r} is not a list of addresses").format(value=raw))
    peers = [item.strip() for item in items]
    for peer in peers:
        if not (_is_address(peer) or _is_name(peer)):
            raise InvalidValue(_("{value!r} is neither an address nor a host name").format(value=peer))
    return tuple(dict.fromkeys(peers))


def _is_address(text: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_name(text: str) -> bool:
    """By the grammar of RFC 1123, and underscores, which some sites use; 10.0.0.300 is not a name."""
    labels = text.removesuffix(".").split(".")
    return (
        len(text) <= LONGEST_NAME
        and text.isascii()
        and not labels[-1].isdecimal()
        and all(
            0 < len(label) <= LONGEST_LABEL
            and label.replace("-", "").replace("_", "").isalnum()
            and label[0] + label[-1] == (label[0] + label[-1]).strip("-")
            for label in labels
        )
    )


def _path(raw: Any, in_file: bool) -> str:
    if not isinstance(raw, str) or not raw or "\0" in raw:
        raise InvalidValue(_("{value!r} is not a path").format(value=raw))
    if in_file and not raw.startswith("/"):
        raise InvalidValue(_("{value!r} is not an absolute path").format(value=raw))
    return raw


def _language(raw: Any, in_file: bool) -> str:
    # NPUDOCTOR_LANG may look like LANG: zh_CN.UTF-8
    short = raw[:2].lower() if isinstance(raw, str) and raw[2:3] in ("", "_", "-", ".") else raw
    return _one_of("en", "zh")(short if short in ("en", "zh") else raw, in_file)


def _ignored(raw: Any, in_file: bool) -> dict[str, Optional[str]]:
    """Names with their reasons, from "ID=REASON" texts or from a table."""
    if isinstance(raw, Mapping):
        if not all(isinstance(reason, str) for reason in raw.values()):
            raise InvalidValue(_("each reason must be a string"))
        return {name: reason or None for name, reason in raw.items()}
    items = [item for item in raw.split(",") if item.strip()] if isinstance(raw, str) and not in_file else raw
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise InvalidValue(_('{value!r} is not a list of "ID" or "ID=REASON"').format(value=raw))
    pairs = [item.partition("=") for item in items]
    return {name.strip(): reason.strip() or None for name, _equal, reason in pairs}


# What the schema of the report names too.
SCOPES = ("all", "node", "job")
PROFILES = ("full", "quick", "deep")

KEYS: dict[str, ConfigKey] = {
    "expect": ConfigKey(_one_of("auto", "npu", "gpu", "none"), "auto"),
    "scope": ConfigKey(_one_of(*SCOPES), "all"),
    "profile": ConfigKey(_one_of(*PROFILES), "full"),
    "fail_on": ConfigKey(_one_of("error", "warning"), "error"),
    "deadline": ConfigKey(_seconds, 30.0),
    "timeout": ConfigKey(_seconds, 10.0),
    "wait": ConfigKey(_patience, 0.0),
    "peers": ConfigKey(_addresses, ()),
    "python": ConfigKey(_path),
    REASONS: ConfigKey(_ignored),
    "lang": ConfigKey(_language),
    "format": ConfigKey(_one_of("text", "json"), "text"),
}
