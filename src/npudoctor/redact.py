"""Takes secrets out of what is shown: values that follow telling names, and passwords inside URLs."""

from __future__ import annotations

import re

HIDDEN = "***"

# What a text must hold to be worth the patterns, which cost a millisecond to compile.
_TELLING = ("pass", "secret", "token", "api", "access", "private", "credential", "bearer", "://")
_WORD = (
    r"(?:passw(?:or)?d|passphrase|secret|token|credentials?|(?:api|access|private|secret)[-_]?key)"
    r"(?:[-_](?:key|value))?"
)
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s,;]+)"
_NAMED = rf"(?i)((?:\b|[-_.]){_WORD}[\"']?\s{{0,4}}[=:]\s{{0,4}}){_VALUE}"
_FLAG = rf"(?i)(--[a-z-]{{0,40}}{_WORD}\s+){_VALUE}"
_BEARER = r"(?i)\b(bearer\s{1,4})[^\s,;]+"
_URL = r"(?i)\b([a-z][a-z0-9+.-]{0,20}://[^\s/:@]{0,99}:)[^\s/@]+@"
_USER_URL = r"(?i)(\bhttps?://)[^\s/:@]+@"


def redact(text: str) -> str:
    """The text with `password=...`, `--token ...` and `scheme://user:...@` hidden."""
    lowered = text.lower()
    if not any(word in lowered for word in _TELLING):
        return text
    for pattern in (_NAMED, _FLAG, _BEARER):
        text = re.sub(pattern, rf"\1{HIDDEN}", text)
    for pattern in (_URL, _USER_URL):
        text = re.sub(pattern, rf"\1{HIDDEN}@", text)
    return text
