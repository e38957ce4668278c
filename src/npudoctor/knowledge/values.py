"""What tables of variables have in common: a row, and the sentences about values that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from npudoctor.core.messages import _

# One variable: its "kind", and by that "values", or "least" and "most".
VariableRow = Mapping[str, Any]


def not_one_of(words: Iterable[str]) -> str:
    """The sentence that a value is not one of these words."""
    return _("it is not one of {words}", words=", ".join(words))


def out_of_range(row: VariableRow, number: float) -> Optional[str]:
    """The sentence that a number is out of range; None when it is not, or the row has no range."""
    if "least" not in row or row["least"] <= number <= row["most"]:
        return None
    return _("it is not between {first} and {last}", first=row["least"], last=row["most"])
