"""Takes secrets out of what is shown: values that follow telling names, and passwords inside URLs."""

from __future__ import annotations

import re

HIDDEN = "***"

# What a text must hold to be worth the patterns, which cost a millisecond to compile.
_TELLING = (
    *("pass", "secret", "token", "api", "access", "private", "credential", "bearer", "://", "authorization"),
    *("_pwd", "curl", "akia", "eyj", "hf_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "sk-"),
    *(f"{name}{mark}" for name in ("ak", "sk") for mark in ("=", ":", '"', "'", " =", " :")),
)
_WORD = (
    r"(?:passw(?:or)?d|passphrase|secret|token|credentials?|(?:api|access|private|secret)[-_]?key(?:[-_]id)?)"
    r"(?:[-_](?:key|value))?"
)
_VALUE = r"(?:\"[^\"]*\"|'[^']*'|[^\s,;]+)"
_NAME = rf"(?i)(?:\b|[-_.]){_WORD}[\"']?\s{{0,4}}[=:]\s{{0,4}}"
_FLAG = rf"(?i)(--[a-z-]{{0,40}}{_WORD}\s+){_VALUE}"
_BEARER = r"(?i)\b(bearer\s{1,4})[^\s,;]+"
_URL = r"(?i)\b([a-z][a-z0-9+.-]{0,20}://[^\s/:@]{0,99}:)[^\s/@]+@"
_USER_URL = r"(?i)(\bhttps?://)[^\s/:@]+@"
_BASIC = r"(?i)(\bauthorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:basic|digest|token)\s{1,4})[^\s,;\"']+"
_CURL = r"(\bcurl\s(?:[^\n]{0,200}\s)?(?:-u|--user)[ =]?[^\s:]{1,99}:)\S+"
_DATABASE = r"(\b[A-Z0-9]{1,20}_PWD=)[^\s/,;]+"
# Of these keys of object stores the names are too short to be telling alone.
_PAIR = r"(?i)((?:\b|_)[as]k[\"']?\s{0,4}[=:]\s{0,4}[\"']?)(?=[a-z+/]*[0-9])[a-z0-9+/]{8,}"
_SPOKEN = r"(?i)(\bapi key:?\s{1,4}(?:is\s)?)[0-9a-f]{32,}"
# What says by its own form that it is a secret.
_SELF = (
    r"()\b(?:AKIA[0-9A-Z]{12,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{6,}|sk-[\w-]{20,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
_BEFORE_A_PATH = " \t\n\r\"'()[]{}<>,;:=`"


def redact(text: str) -> str:
    """The text with `password=...`, `--token ...` and `scheme://user:...@` hidden."""
    lowered = text.lower()
    if not any(word in lowered for word in _TELLING):
        return text
    text = _without_named(text)
    for pattern in (_FLAG, _BEARER, _BASIC, _CURL, _DATABASE, _PAIR, _SPOKEN, _SELF):
        text = re.sub(pattern, rf"\1{HIDDEN}", text)
    for pattern in (_URL, _USER_URL):
        text = re.sub(pattern, rf"\1{HIDDEN}@", text)
    return text


def _without_named(text: str) -> str:
    name, value = re.compile(_NAME), re.compile(_VALUE)
    parts, done, at = [], 0, 0
    while found := name.search(text, at):
        at = found.end()
        told = None if _of_a_path(text, found) else value.match(text, at)
        if told:
            parts += [text[done:at], HIDDEN]
            done = at = told.end()
    return "".join(parts) + text[done:]


def _of_a_path(text: str, match: re.Match[str]) -> bool:
    """Whether the telling name only ends a path that is told, as in "/etc/passwd: no such file"."""
    if "=" in match[0]:
        return False
    begin = match.start()
    while begin and text[begin - 1] not in _BEFORE_A_PATH:
        begin -= 1
    path = text[begin : match.end()]
    return path.startswith("/") and not path.startswith("//") and "?" not in path
