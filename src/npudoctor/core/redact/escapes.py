r"""Names and values that are written with escapes: password%3Dhunter2, "pass\u0077ord"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor.core.lazy import pattern
from npudoctor.core.redact.names import looks_secret, weight

Span = tuple[int, int]

# A URL in a URL is encoded once more: %3D, %253D.
_ENCODED = pattern(
    r"(?<![\w.-])([\w.-]{1,100})(?:%(?:25){0,2}2[27])?%(?:25){0,2}3[AD](?:%(?:25){0,2}2[027]|\+){0,2}"
    r"((?:(?!%(?:25){0,2}(?:2[0267C]|3B|0[AD]|7D))[^\s&\"'<>,;\\]){1,4096})",
    re.IGNORECASE,
)
# The digits of %22 and the like, which \w takes for the beginning of the name.
_LEADING = pattern(r"(?:25){0,2}(?:[2357][0-9A-F]|0[AD])", re.IGNORECASE)
_BYTE = pattern(r"%(?:25){0,2}([0-9A-F]{2})", re.IGNORECASE)
# A letter, digit or sign; quotes and backslashes stay, as they would end what they stand in.
_UNICODE = pattern(r"\\{1,7}u00(?!22|27|5c)([2-7][0-9a-f])", re.IGNORECASE)
UNICODE_MARK = "\\u00"


def find_encoded(text: str) -> Iterator[Span]:
    """First and last+1 of each value that a percent-encoded assignment announces."""
    for match in _ENCODED.finditer(text):
        name = match[1]
        if text[match.start() - 1 : match.start()] == "%":  # the digits of an escape before it
            name = _LEADING.sub("", name, count=1) if _LEADING.match(name) else name
        # Judged as it reads, hidden as it stands.
        value = _BYTE.sub(lambda byte: chr(int(byte[1], 16)), match[2])
        if looks_secret(value, weight(name)):
            yield match.span(2)


def unescape(text: str) -> tuple[str, list[int]]:
    """The text with the escapes of JSON for letters and signs resolved, and where in it each character stood;
    one place more for its end."""
    parts, places, done = list[str](), list[int](), 0
    for match in _UNICODE.finditer(text):
        parts += [text[done : match.start()], chr(int(match[1], 16))]
        places += [*range(done, match.start()), match.start()]
        done = match.end()
    return "".join(parts) + text[done:], [*places, *range(done, len(text) + 1)]
