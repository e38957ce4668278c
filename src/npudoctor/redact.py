"""Takes secrets out of what is shown: values that follow telling names, and passwords inside URLs."""

from __future__ import annotations

import re

HIDDEN = "***"

_WORD = r"(?:passw(?:or)?d|passphrase|secret|token|api[-_]?key|access[-_]?key|credentials?)"
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s,;]+)"
_NAMED = re.compile(rf"(?i)((?:\b|[-_.]){_WORD}\s?[=:]\s?){_VALUE}")
_FLAG = re.compile(rf"(?i)(--[a-z-]{{0,40}}{_WORD}\s+){_VALUE}")
_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+@")


def redact(text: str) -> str:
    """The text with `password=...`, `--token ...` and `scheme://user:...@` hidden."""
    for pattern in (_NAMED, _FLAG):
        text = pattern.sub(rf"\1{HIDDEN}", text)
    return _URL.sub(rf"\1{HIDDEN}@", text)
