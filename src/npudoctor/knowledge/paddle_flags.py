"""Validates values of Paddle's flags by the table paddle_flags. Pure."""

from __future__ import annotations

from typing import Optional

from npudoctor.core.messages import _
from npudoctor.knowledge.values import VariableRow, not_one_of, out_of_range

BOOLS = ("true", "True", "TRUE", "1", "false", "False", "FALSE", "0")


def what_is_wrong(row: VariableRow, value: str) -> Optional[str]:
    """Why Paddle does not take a value, or not all of it; None when it does."""
    kind = row["kind"]
    if kind == "bool":
        return None if value in BOOLS else not_one_of(BOOLS)
    if kind == "word":
        return None if value in row["values"] else not_one_of(row["values"])
    if kind == "devices":
        return None if parse_devices(value) else _("it is not a comma-separated list of numbers")
    if kind == "double":
        number = _read_number(value)
        return _("it is not a number") if number is None else out_of_range(row, number)
    text = value.strip()
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdecimal()):
        return _("it is not a whole number in plain digits")
    return _("it is below 0") if kind == "size" and text.startswith("-") else None


def parse_devices(value: str) -> list[int]:
    """The numbers in a comma-separated list; empty if it is not such a list."""
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 5 for part in parts):
        return []
    return [int(part) for part in parts]


def parse_double(value: str) -> float:
    """The number; 0 if the text is not a number."""
    return _read_number(value) or 0.0


def _read_number(value: str) -> Optional[float]:
    """The number that C reads, None without one. float() alone also accepts "1_0" and non-ASCII digits."""
    try:
        return float(value) if value.isascii() and "_" not in value else None
    except ValueError:
        return None
