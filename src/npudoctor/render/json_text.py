"""JSON as text: valid UTF-8 whatever was found, and harmless on a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping

from npudoctor.render.printable import without_surrogates


def json_text(value: object) -> str:
    """The document, with a newline at its end.

    A line for each key, and one for each entry of a list. With json's own indent its encoder in C is not
    used: a report of a check would cost 15 ms more, a tenth of the whole run.
    """
    document = _clean(value)
    if isinstance(document, dict):
        lines = (f"{_compact(key)}: {_entries(part)}" for key, part in document.items())
        text = "{\n  " + ",\n  ".join(lines) + "\n}"
    else:
        text = _compact(document)
    if not text.replace("\n", "").isprintable():
        # As JSON spells it. Outside of strings the document is plain ASCII, so this is always inside one.
        text = "".join(
            char
            if char == "\n" or char.isprintable()
            else (json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f")
            for char in text
        )
    return text + "\n"


def _entries(value: object) -> str:
    """The value of one key: each has lines of its own."""
    if not isinstance(value, list) or not value:
        return _compact(value)
    return "[\n    " + ",\n    ".join(map(_compact, value)) + "\n  ]"


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _clean(value: object) -> object:
    """The value with plain containers and texts that UTF-8 can carry."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, Mapping):
        return {without_surrogates(str(key)): _clean(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_clean(part) for part in value]
    return value
