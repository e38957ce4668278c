"""Validates values of NCCL's variables by the table nccl_variables, and parses them as NCCL does. Pure."""

from __future__ import annotations

from typing import Optional

from npudoctor.core.messages import _
from npudoctor.knowledge.values import VariableRow, not_one_of, out_of_range

LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
FUNCTIONS = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce", "allgatherv", "sendrecv")
YES, NO = ("y", "yes", "1", "t", "true"), ("n", "no", "0", "f", "false")
# isspace(3) in the C locale.
_BLANKS = " \t\n\v\f\r"
_LONGEST = 64


def parse_number(value: str) -> tuple[int, str]:
    """Parse a number as strtoll(3) with base 0 does; the number, and the rest of the text that is ignored."""
    # A number of 64 bits has at most 22 digits, in base 8.
    text = value[:_LONGEST].lstrip(_BLANKS)
    sign = -1 if text[:1] == "-" else 1
    text = text[1:] if text[:1] in ("-", "+") else text
    base, digits = 10, "0123456789"
    if text[:2].lower() == "0x" and text[2:3].lower() in set("0123456789abcdef"):
        base, digits, text = 16, "0123456789abcdef", text[2:]
    elif text[:1] == "0":
        base, digits = 8, "01234567"
    digits_read = text[: len(text) - len(text.lower().lstrip(digits))]
    return sign * int(digits_read or "0", base), text[len(digits_read) :]


def what_is_wrong(row: VariableRow, value: str) -> Optional[str]:
    """Why a value is not one that is documented, in a sentence for people; None when it is."""
    kind = row["kind"]
    if kind in ("number", "flag"):
        number_read, rest = parse_number(value)
        if is_word(row, value):
            return _("it is not a number")
        if rest.strip(_BLANKS):
            return _("only {number} is read from it", number=number_read)
        return out_of_range(row, number_read)
    if kind == "word":
        words = row["values"]
        folded = [word.upper() for word in words] if row.get("any_case") else words
        right = (value.upper() if row.get("any_case") else value) in folded
        return None if right else not_one_of(words)
    if kind == "bool":
        return None if value.lower() in (*YES, *NO) else not_one_of(("1", "0", "true", "false"))
    if kind == "level":
        return None if value in LEVELS or value[:1].isdecimal() else not_one_of(LEVELS)
    if kind != "list":
        return None
    words = [word.lower() for word in row["values"]]
    # Elements for all functions, then for one each: "ring,tree;allreduce:^tree".
    for index, part in enumerate(part for part in value.split(";") if part):
        function, colon, elements = part.rpartition(":")
        if not colon and index:
            return _("every part after the first must begin with a function name: {part}", part=part)
        if colon and function.lower() not in FUNCTIONS:
            return _("{name} is not an NCCL function", name=function)
        for element in elements.lstrip("^").split(","):
            if element and element.lower() not in words:
                return _("{unknown} is not one of {words}", unknown=element, words=", ".join(row["values"]))
    return None


def is_on(value: str) -> bool:
    """Whether a flag is on."""
    return parse_number(value)[0] != 0


def is_word(row: VariableRow, value: str) -> bool:
    """Whether NCCL reads a number from this variable but the value begins with none, so that it reads 0."""
    text = value.strip(_BLANKS)
    first = text[1:2] if text[:1] in ("-", "+") else text[:1]
    return row["kind"] in ("number", "flag") and not (first.isascii() and first.isdecimal())
