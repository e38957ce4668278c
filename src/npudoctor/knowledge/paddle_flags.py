"""Which values Paddle's flags may have, by the table paddle_flags. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from npudoctor.core.messages import _

Row = Mapping[str, Any]

BOOLS = ("true", "True", "TRUE", "1", "false", "False", "FALSE", "0")


def what_is_wrong(row: Row, value: str) -> Optional[str]:
    """Why Paddle does not take a value, or not all of it; None when it does."""
    kind = row["kind"]
    if kind == "bool":
        return None if value in BOOLS else _("it is not one of {words}").format(words=", ".join(BOOLS))
    if kind == "word":
        right = value in row["values"]
        return None if right else _("it is not one of {words}").format(words=", ".join(row["values"]))
    if kind == "devices":
        return None if devices(value) else _("it is not a comma-separated list of numbers")
    return _double(row, value) if kind == "double" else _whole(row, value)


def devices(value: str) -> list[int]:
    """The numbers of a list; empty when it is none."""
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 5 for part in parts):
        return []
    return [int(part) for part in parts]


def double(value: str) -> float:
    """The number; 0 where it is none."""
    try:
        return float(value) if _plain(value) else 0.0
    except ValueError:
        return 0.0


def _double(row: Row, value: str) -> Optional[str]:
    try:
        number = float(value) if _plain(value) else None
    except ValueError:
        number = None
    if number is None:
        return _("it is not a number")
    if "least" in row and not row["least"] <= number <= row["most"]:
        return _("it is not between {first} and {last}").format(first=row["least"], last=row["most"])
    return None


def _whole(row: Row, value: str) -> Optional[str]:
    text = value.strip()
    signed = text[:1] in ("-", "+")
    digits = text[1:] if signed else text
    if not (digits.isascii() and digits.isdecimal()):
        return _("it is not a whole number in plain digits")
    if row["kind"] == "size" and text.startswith("-"):
        return _("it is below 0")
    return None


def _plain(value: str) -> bool:
    """Whether it is written in characters that C reads: Python takes underscores and other digits too."""
    return value.isascii() and "_" not in value
