"""Texts, lines and values as they are shown: without their secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from npudoctor.core.redact.prefilter import HIDDEN, may_hold_secret


def redact(text: str) -> str:
    """The text without its secrets: `password=***`, `https://bob:***@host`."""
    # The patterns are loaded only for what may need them.
    if not may_hold_secret(text):
        return text
    from npudoctor.core.redact.redactor import Redactor

    return Redactor().text(text)


def redact_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Redact lines that belong together; a private key may fill several of them."""
    lines = tuple(lines)
    if not any(map(may_hold_secret, lines)):
        return lines
    from npudoctor.core.redact.redactor import Redactor

    redactor = Redactor()
    return tuple(redactor.line(line) for line in lines)


def redact_value(value: object) -> object:
    """A JSON value without secrets in any of its texts; a telling key hides its text."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _redact_member(key, part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        # Lines of one text, such as evidence: a key may go over several of them.
        if all(isinstance(part, str) for part in value):
            return list(redact_lines(value))
        return [redact_value(part) for part in value]
    return value


def _redact_member(key: object, value: object) -> object:
    if isinstance(key, str) and isinstance(value, str) and may_hold_secret(f"{key}="):
        from npudoctor.core.redact.assignments import hides

        if hides(key, value):
            return HIDDEN
    return redact_value(value)
