"""Takes secrets out of what is shown: values that follow telling names, and passwords inside URLs."""

from __future__ import annotations

import re

HIDDEN = "***"

# What a text must hold to be worth the patterns, which cost a millisecond to compile.
_TELLING = ("pass", "secret", "token", "key", "credential", "://")
_WORD = r"(?:passw(?:or)?d|passphrase|secret|token|api[-_]?key|access[-_]?key|credentials?)"
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s,;]+)"
_NAMED = rf"(?i)((?:\b|[-_.]){_WORD}\s?[=:]\s?){_VALUE}"
_FLAG = rf"(?i)(--[a-z-]{{0,40}}{_WORD}\s+){_VALUE}"
_URL = r"(?i)\b([a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+@"


def redact(text: str) -> str:
    """The text with `password=...`, `--token ...` and `scheme://user:...@` hidden."""
    lowered = text.lower()
    if not any(word in lowered for word in _TELLING):
        return text
    for pattern in (_NAMED, _FLAG):
        text = re.sub(pattern, rf"\1{HIDDEN}", text)
    return re.sub(_URL, rf"\1{HIDDEN}@", text)
