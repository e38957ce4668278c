"""Writes JSON as text: always valid UTF-8, and without characters that control a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping

from npudoctor.render.printable import without_surrogates


def json_text(value: object) -> str:
    """The document as text, with a line feed at its end.

    One line per key, and one per entry of a list. json's own indent does not use the encoder in C: a report
    would take 15 ms more, a tenth of the whole run.
    """
    document = _clean(value)
    if isinstance(document, dict):
        lines = (f"{_compact(key)}: {_entries(part)}" for key, part in document.items())
        text = "{\n  " + ",\n  ".join(lines) + "\n}"
    else:
        text = _compact(document)
    if not text.replace("\n", "").isprintable():
        # Escaped as in JSON. Outside of strings the document is printable ASCII, so that this is inside a
        # string.
        text = "".join(
            char
            if char == "\n" or char.isprintable()
            # json escapes all control characters but DEL.
            else (json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f")
            for char in text
        )
    return text + "\n"


def _entries(value: object) -> str:
    """The value of a top-level key; a list has one line per entry."""
    if not isinstance(value, list) or not value:
        return _compact(value)
    return "[\n    " + ",\n    ".join(map(_compact, value)) + "\n  ]"


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _clean(value: object) -> object:
    """The value with plain containers, and with lone surrogates escaped."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, Mapping):
        return {without_surrogates(str(key)): _clean(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_clean(part) for part in value]
    return value
