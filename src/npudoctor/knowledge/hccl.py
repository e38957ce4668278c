"""Which values HCCL's variables may have, by the table hccl_variables and the chip. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Callable, Optional

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
_LONGEST = 10  # HCCL refuses longer numbers unread
_LEVELS = ("L0", "L1", "L2")
_ALGO_LEVELS = ("level0", "level1", "level2", "level3")


def chip_of(models: Iterable[str]) -> str:
    """The chip of a machine; "" where it is not known, or there are several."""
    chips = {CHIPS.get(model, "") for model in models}
    return chips.pop() if len(chips) == 1 else ""


def on_chip(row: VariableRow, chip: str) -> VariableRow:
    """The row as it is on this chip."""
    for special in row.get("on", ()):
        if chip in special["chips"]:
            return {**row, **special}
    return row


def what_is_wrong(row: VariableRow, value: str) -> Optional[str]:
    """Why a value cannot be used, in a sentence for people; None when it can."""
    judge = _JUDGES.get(row["kind"])
    try:
        return judge(row, value) if judge else None
    except ValueError as error:
        return str(error)


def nearest(row: VariableRow, value: str) -> str:
    """The valid value next to a number out of range; "" where there is none."""
    if row["kind"] not in ("whole", "decimal") or not _digits(value):
        return ""
    number = min(max(int(value[:19]), row["least"]), row["most"])
    return str(number - number % row.get("multiple", 1))


def algorithms(value: str) -> dict[str, dict[str, str]]:
    """HCCL_ALGO: operator ("" for all) to level to algorithm; ValueError when it cannot be read."""
    by_operator: dict[str, dict[str, str]] = {}
    for part in value.split("/"):
        operator, equals, levels = part.rpartition("=")
        if (equals and not operator.strip()) or operator.strip() in by_operator:
            raise ValueError(_("it is not written as {form}", form=_FORMS["algo"]))
        by_operator[operator.strip()] = _levels(levels)
    return by_operator


def _levels(text: str) -> dict[str, str]:
    levels = {}
    for part in text.strip().strip(";").split(";"):
        level, colon, algorithm = (word.strip() for word in part.partition(":"))
        if not colon or not algorithm or level not in _ALGO_LEVELS:
            raise ValueError(_("it is not written as {form}", form=_FORMS["algo"]))
        levels[level] = algorithm
    return levels


def retries(value: str) -> dict[str, str]:
    """HCCL_OP_RETRY_ENABLE: level to 0 or 1, blanks left out; ValueError when it cannot be read."""
    by_level: dict[str, str] = {}
    for part in value.replace(" ", "").split(","):
        level, _colon, on = part.partition(":")
        if level not in _LEVELS or on not in ("0", "1") or level in by_level:
            raise ValueError(_("it is not written as {form}", form=_FORMS["retry"]))
        by_level[level] = on
    return by_level


def _whole(row: VariableRow, value: str) -> Optional[str]:
    if not _digits(value) or len(value) > _LONGEST:
        return _("it is not a whole number in plain digits")
    if int(value) % row.get("multiple", 1):
        return _("it is not a multiple of {number}", number=row["multiple"])
    return out_of_range(row, int(value))


def _decimal(row: VariableRow, value: str) -> Optional[str]:
    before, point, after = value.partition(".")
    if not _digits(before) or len(value) > _LONGEST or (point and not (_digits(after) and len(after) < 3)):
        return _("it is not a number in plain digits")
    return out_of_range(row, float(value))


def _word(row: VariableRow, value: str) -> Optional[str]:
    known = row["values"]
    if (value.lower() if row.get("any_case") else value) in known:
        return None
    return not_one_of(known)


def _algo(row: VariableRow, value: str) -> Optional[str]:
    by_operator = algorithms(value).values()
    unknown = [
        algorithm for levels in by_operator for algorithm in levels.values() if algorithm not in row["values"]
    ]
    if unknown:
        return _(
            "{unknown} is not one of {words}", unknown=", ".join(unknown), words=", ".join(row["values"])
        )
    if any(levels.get("level0", "NA") != "NA" for levels in by_operator):
        return _("level0 accepts NA only")
    return None


def _retry(_row: VariableRow, value: str) -> Optional[str]:
    retries(value)
    return None


def _ports(_row: VariableRow, value: str) -> Optional[str]:
    parse_spans(value)
    return None


def _address(_row: VariableRow, value: str) -> Optional[str]:
    import ipaddress

    try:
        ipaddress.ip_address(value.partition("%")[0])
    except ValueError:
        return _("it is not an IP address")
    return None


def _digits(value: str) -> bool:
    return value.isascii() and value.isdecimal()


_FORMS = {"algo": "level0:NA;level1:ring", "retry": "L1:1,L2:1"}
_JUDGES: dict[str, Callable[[VariableRow, str], Optional[str]]] = {
    "whole": _whole,
    "decimal": _decimal,
    "word": _word,
    "algo": _algo,
    "retry": _retry,
    "ports": _ports,
    "address": _address,
}
