"""What CANN's return numbers are called and mean, and a signature in which that is said of one of them.

The table is read only when a number is asked for, or when one is all that is known of a failure.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Optional

from npudoctor.explain.signatures import Signature
from npudoctor.frozen import dataclass, replace
from npudoctor.knowledge.tables import table

_HEX = 4  # so many digits of an errNo[0x...] are the HcclResult


@dataclass(frozen=True)
class ReturnNumber:
    """A number, its name in CANN's headers and its meaning in each language."""

    number: str
    name: str
    en: str
    zh: str


@cache
def return_numbers() -> dict[str, ReturnNumber]:
    """All that are documented, by their number."""
    sections = [rows for rows in table("return_numbers").values() if isinstance(rows, list)]
    made = [
        ReturnNumber(one["number"], one["name"], one["en"], one["zh"]) for rows in sections for one in rows
    ]
    return {one.number: one for one in made}


def number_of(word: str) -> str:
    """The number that a word stands for: of a name its number; else the word itself."""
    asked = word.strip()
    if not asked[:1].isalpha() or "_" not in asked:
        return asked
    named = (one.number for one in return_numbers().values() if one.name == asked.upper())
    return next(named, asked)


def of_number(signature: Signature, number: Optional[str]) -> Signature:
    """The signature, saying what the number means; as it is where that is not known.

    A row that is nothing but numbers takes the meaning as its title; any other begins its cause with it.
    """
    row = return_numbers().get(number or "")
    if row is None or row.number not in signature.codes:
        return signature
    said = {"en": f"{row.en} [{row.number} {row.name}]", "zh": f"{row.zh} [{row.number} {row.name}]"}
    if signature.numbered:
        return replace(signature, title=said)
    cause = {"en": f"{said['en']}. {signature.cause['en']}", "zh": f"{said['zh']}。{signature.cause['zh']}"}
    return replace(signature, cause=cause)


def number_in(signature: Signature, line: str) -> Optional[str]:
    """The return number of the signature that stands in a line; None where there is none."""
    for pattern in signature.patterns:
        found = re.search(pattern, line)
        inner = re.findall(r"\w+", found.group()) if found else ()
        for word in reversed(inner):
            number = _spelled(word)
            if number in signature.codes:
                return number
    return None


def _spelled(word: str) -> str:
    """A number as the table has it; HCCL's also stand as the end of a hexadecimal one, or by their names."""
    if re.fullmatch(r"0x0{8}050[01][0-9a-f]{4}", word):
        return str(int(word[-_HEX:], 16))
    return number_of(word)
