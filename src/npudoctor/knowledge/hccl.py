"""Validates values of HCCL's variables by the table hccl_variables and the chip. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from npudoctor.core.messages import _
from npudoctor.core.ports import parse_spans
from npudoctor.knowledge.values import VariableRow, not_one_of, out_of_range

# What the PCI ids say, as the table names the chips.
CHIPS = {
    "Ascend 910A": "910",
    "Ascend 910B": "A2",
    "Ascend 910_93": "A3",
    "Ascend 950": "950",
    "Ascend 310P": "310P",
}
_LONGEST = 10  # HCCL refuses longer numbers without parsing them
_LEVELS = ("L0", "L1", "L2")
_ALGO_LEVELS = ("level0", "level1", "level2", "level3")
_ALGO_FORM = "level0:NA;level1:ring"


def chip_of(models: Iterable[str]) -> str:
    """The chip of a machine by the models of its NPUs; "" if it is unknown, or if there are several."""
    chips = {CHIPS.get(model, "") for model in models}
    return chips.pop() if len(chips) == 1 else ""


def row_on_chip(row: VariableRow, chip: str) -> VariableRow:
    """The row with the values that hold on this chip."""
    for special in row.get("on", ()):
        if chip in special["chips"]:
            return {**row, **special}
    return row


def what_is_wrong(row: VariableRow, value: str) -> Optional[str]:
    """Why a value cannot be used, in a sentence for people; None when it can."""
    kind = row["kind"]
    if kind == "whole":
        if not _is_digits(value) or len(value) > _LONGEST:
            return _("it is not a whole number in plain digits")
        if int(value) % row.get("multiple", 1):
            return _("it is not a multiple of {number}", number=row["multiple"])
        return out_of_range(row, int(value))
    if kind == "decimal":
        before, point, after = value.partition(".")
        fraction = not point or (_is_digits(after) and len(after) < 3)
        if not _is_digits(before) or len(value) > _LONGEST or not fraction:
            return _("it is not a number in plain digits")
        return out_of_range(row, float(value))
    if kind == "word":
        words = row["values"]
        return None if (value.lower() if row.get("any_case") else value) in words else not_one_of(words)
    if kind == "address":
        import ipaddress

        try:
            ipaddress.ip_address(value.partition("%")[0])
        except ValueError:
            return _("it is not an IP address")
        return None
    try:
        if kind == "retry":
            parse_retries(value)
        if kind == "ports":
            parse_spans(value)
        by_operator = parse_algorithms(value) if kind == "algo" else {}
    except ValueError as error:
        return str(error)
    levels = by_operator.values()
    unknown = [name for by_level in levels for name in by_level.values() if name not in row["values"]]
    if unknown:
        return _(
            "{unknown} is not one of {words}", unknown=", ".join(unknown), words=", ".join(row["values"])
        )
    if any(by_level.get("level0", "NA") != "NA" for by_level in levels):
        return _("level0 accepts NA only")
    return None


def nearest_valid(row: VariableRow, value: str) -> str:
    """The valid value next to a number out of range; "" where there is none."""
    if row["kind"] not in ("whole", "decimal") or not _is_digits(value):
        return ""
    # int() of a long text is slow, and an error beyond 4300 digits in newer releases of Python.
    number = min(max(int(value[:19]), row["least"]), row["most"])
    return str(number - number % row.get("multiple", 1))


def parse_algorithms(value: str) -> dict[str, dict[str, str]]:
    """HCCL_ALGO: operator ("" for all) to level to algorithm; ValueError when it cannot be read."""
    by_operator: dict[str, dict[str, str]] = {}
    for part in value.split("/"):
        operator, equals, levels = part.rpartition("=")
        if (equals and not operator.strip()) or operator.strip() in by_operator:
            raise ValueError(_("it does not have the form {form}", form=_ALGO_FORM))
        by_level = by_operator[operator.strip()] = {}
        for entry in levels.strip().strip(";").split(";"):
            level, colon, algorithm = (word.strip() for word in entry.partition(":"))
            if not colon or not algorithm or level not in _ALGO_LEVELS:
                raise ValueError(_("it does not have the form {form}", form=_ALGO_FORM))
            by_level[level] = algorithm
    return by_operator


def parse_retries(value: str) -> dict[str, str]:
    """HCCL_OP_RETRY_ENABLE: level to 0 or 1, blanks left out; ValueError when it cannot be read."""
    by_level: dict[str, str] = {}
    for part in value.replace(" ", "").split(","):
        level, _colon, on = part.partition(":")
        if level not in _LEVELS or on not in ("0", "1") or level in by_level:
            raise ValueError(_("it does not have the form {form}", form="L1:1,L2:1"))
        by_level[level] = on
    return by_level


def _is_digits(value: str) -> bool:
    return value.isascii() and value.isdecimal()
