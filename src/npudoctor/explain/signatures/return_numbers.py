"""What CANN's return numbers are called and mean, and a signature in which that is said of one of them.

The table is looked into only when a number is asked for, or when one is all that is known of a failure; and
of its file only the one line is read: a parser of TOML takes longer to load than a small log to judge.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Optional

from npudoctor.core.frozen import dataclass, replace
from npudoctor.explain.signatures.signatures import Signature
from npudoctor.knowledge.tables import FOLDER

_FILE = os.path.join(FOLDER, "return_numbers.toml")


@dataclass(frozen=True)
class ReturnNumber:
    """A number, its name in CANN's headers and its meaning in each language."""

    number: str
    name: str
    en: str
    zh: str


def return_number(number: str) -> Optional[ReturnNumber]:
    """The row of a number; None where it is not documented."""
    return _row("number", number)


def number_of_word(word: str) -> str:
    """The number that a word stands for: of a name its number; else the word itself."""
    name = word.strip()
    row = _row("name", name.upper())
    return name if row is None else row.number


def _row(key: str, value: str) -> Optional[ReturnNumber]:
    """The row in which a key is of this value: each is a line, of plain texts only (a test says so)."""
    text = _text()
    at = -1 if '"' in value else text.find(f'{key} = "{value}"')
    if at < 0:
        return None
    line = text[text.rindex("\n", 0, at) : text.index("\n", at)]
    return ReturnNumber(**dict(re.findall(r'(\w+) = "([^"]*)"', line)))


@cache
def _text() -> str:
    """All of the file, read once. Apart, as it is kept."""
    with open(_FILE, encoding="utf-8") as file:
        return file.read()


def explain_number(signature: Signature, number: Optional[str]) -> Signature:
    """The signature, saying what the number means; as it is where that is not known.

    A row that is nothing but numbers takes the meaning as its title; any other begins its cause with it.
    """
    if number is None or not number.isdigit() or number not in signature.codes:
        return signature
    row = return_number(number)
    if row is None:  # a site's own
        return signature
    sentences = {"en": f"{row.en} [{row.number} {row.name}]", "zh": f"{row.zh} [{row.number} {row.name}]"}
    if signature.numbered:
        return replace(signature, title=sentences)
    cause = {
        "en": f"{sentences['en']}. {signature.cause['en']}",
        "zh": f"{sentences['zh']}。{signature.cause['zh']}",
    }
    return replace(signature, cause=cause)


def number_in(signature: Signature, line: str) -> Optional[str]:
    """The return number of the signature that stands in a line; None where there is none."""
    for pattern in signature.patterns:
        match = re.search(pattern, line)
        inner = re.findall(r"\w+", match.group()) if match else ()
        for word in reversed(inner):
            # HCCL's also stand as the end of a hexadecimal one, or by their names.
            # errNo[0x000000000500000b]: the module 05 of HCCL, and its HcclResult in the last four digits.
            hexadecimal = re.fullmatch(r"0x0{8}050[01]([0-9a-f]{4})", word)
            number = str(int(hexadecimal[1], 16)) if hexadecimal else number_of_word(word)
            if number in signature.codes:
                return number
    return None
