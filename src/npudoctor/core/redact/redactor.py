"""Hides every secret of a text, or of lines one after the other, and counts what it hid by kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from npudoctor.core.lazy import pattern
from npudoctor.core.redact.assignments import find_assigned
from npudoctor.core.redact.context import OPENS, Context
from npudoctor.core.redact.escapes import UNICODE_MARK, find_encoded, unescape
from npudoctor.core.redact.families import Families, families_of
from npudoctor.core.redact.forms import (
    COMMANDS,
    HEADERS,
    KEY_BEGIN,
    KEY_END,
    KEY_LINE,
    OPTIONS,
    SEGMENT,
    TOKENS,
    URL,
    WEB,
    password_span,
)
from npudoctor.core.redact.names import Weight, entropy, looks_secret
from npudoctor.core.redact.nearby import find_nearby
from npudoctor.core.redact.prefilter import HIDDEN, may_hold_secret
from npudoctor.core.redact.values import Values

# Lines of a private key whose end is nowhere: a 16384-bit RSA key has 200.
LONGEST_KEY = 250

Secret = tuple[int, int, str]


class Redactor:
    """Redacts a whole text (`text`), or lines one after the other (`line`), across which a private key may go
    on.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._left = 0  # lines that may still belong to the key that has begun
        self._context = Context()

    @property
    def in_private_key(self) -> bool:
        """Whether the next line belongs to a private key."""
        return self._left > 0

    def begin_text(self) -> None:
        """Forget the lines so far: what follows belongs to another text."""
        self._left = 0
        self._context = Context()

    def text(self, text: str) -> str:
        """Redact a whole text."""
        if not may_hold_secret(text):
            return text
        return self._hide(text, [*_find_secrets(text), *(_find_in_context(text) if "\n" in text else ())])

    def line(self, text: str) -> str:
        """Redact the next line of a text."""
        if self._left:
            end = KEY_END.search(text)
            self._left = 0 if end else self._left - 1
            return HIDDEN + (self.text(text[end.end() :]) if end else "")
        below = self._context.line(text) if self._context.open or OPENS.search(text) else ()
        secrets = [(*span, "named") for span in below]
        if may_hold_secret(text):
            secrets += _find_secrets(text)
        shown = self._hide(text, secrets)
        begun = [match.end() for match in KEY_BEGIN.finditer(text)] if "-----BEGIN" in text else []
        if begun and not KEY_END.search(text, begun[-1]):
            self._left = LONGEST_KEY
            return shown
        body = KEY_LINE.search(text) if shown == text else None
        # Base64 of random bytes: neither a digest nor a sequence of words.
        if body and entropy(body[1]) > 4.4 and body[1] != body[1].lower() and body[1] != body[1].upper():
            self.counts["key"] += 1
            return text[: body.start(1)] + HIDDEN
        return shown

    def hide_dumps(self, lines: Sequence[str]) -> list[str]:
        """The same lines: only what leaves the machine is searched for dumps of the environment
        (BundleRedactor).
        """
        return list(lines)

    def _hide(self, text: str, secrets: list[Secret]) -> str:
        parts, done = [], 0
        # Of two that begin at one place the longer first: it covers the other.
        for begin, end, kind in sorted(secrets, key=lambda secret: (secret[0], -secret[1])):
            if end <= done:
                continue
            if begin >= done:
                parts += [text[done:begin], HIDDEN]
                self.counts[kind] += 1
            done = end
        return "".join(parts) + text[done:]


def _find_secrets(text: str) -> Iterator[Secret]:
    """Every secret, also those that JSON has written with escapes."""
    yield from _find(text)
    if UNICODE_MARK in text or UNICODE_MARK.upper() in text:
        unescaped, places = unescape(text)
        for begin, end, kind in _find(unescaped) if unescaped != text else ():
            yield places[begin], places[end], kind


def _find_in_context(text: str) -> Iterator[Secret]:
    """The secrets that lines of a text announce in the lines below them."""
    context, at = Context(), 0
    for line in text.split("\n"):
        if context.open or OPENS.search(line):
            for begin, end in context.line(line):
                yield at + begin, at + end, "named"
        at += len(line) + 1


def _find(text: str) -> Iterator[Secret]:
    """Every secret, in no order; they may overlap."""
    yield from _find_private_keys(text)
    families = families_of(text)
    # Each only where a word of its family is in the text: most lines of a log have none.
    finders = (
        (families.names, find_assigned),
        (families.near, find_nearby),
        (families.encoded, find_encoded),
        (families.phrases, find_phrases),
    )
    for worth, finder in finders:
        for begin, end in finder(text) if worth else ():
            yield begin, end, "named"
    if families.programs:
        for begin, end in Values(text).find_each((at, Weight.SECRET) for at in _find_arguments(text)):
            yield begin, end, "command"
    yield from _find_shaped(text, families)


def _find_shaped(text: str, families: Families) -> Iterator[Secret]:
    """The secrets that their own form, or what stands right before them, tells, whatever their name."""
    shaped = (
        (families.headers, HEADERS, "header"),
        (families.shapes, WEB, "url"),
        (families.shapes, (TOKENS,), "token"),
    )
    for worth, forms, kind in shaped:
        for form in forms if worth else ():
            for match in form.finditer(text):
                if looks_secret(match[1].strip(), Weight.SECRET):
                    yield match.start(1), match.end(1), kind
    for match in URL.finditer(text) if families.shapes else ():
        place = password_span(match[1], match[2])
        # Hidden already, by another form or by who wrote the log.
        if place and text[match.start(2) + place[0] : match.start(2) + place[1]] != HIDDEN:
            yield match.start(2) + place[0], match.start(2) + place[1], "url"


def _find_arguments(text: str) -> Iterator[int]:
    """Where each argument of a program begins that is a secret."""
    for form in COMMANDS:
        yield from (match.end() for match in form.finditer(text))
    for program, option in OPTIONS:
        at = 0
        while match := program.search(text, at):
            begin, at = match.end(), SEGMENT.match(text, match.end()).end()  # type: ignore[union-attr]
            yield from (argument.end() for argument in option.finditer(text, begin, at))


def _find_private_keys(text: str) -> Iterator[Secret]:
    """Private keys, each to its end, or to the end of the text."""
    at = 0
    while begin := KEY_BEGIN.search(text, at):
        end = KEY_END.search(text, begin.end())
        at = end.end() if end else len(text)
        yield begin.start(), at, "key"


Span = tuple[int, int]

# Wallets and key tools make phrases of 12 to 24 words of three to eight letters. An ordinary sentence has
# "of", "is" or "to" before its twelfth word.
_SEED = pattern(
    r"\b(?:mnemonic|(?:seed|recovery|backup)(?:[ _-]?phrase| words))s?\b(?:[ _-]?(?:phrase|words))?"
    r"(?:\s(?:is|was))?[^\w\n]{0,8}((?:[a-z]{3,8}[^\w\n]{1,4}){11,23}[a-z]{3,8})(?![\w-])",
    re.IGNORECASE,
)
_SAID = pattern(r"\bpass[ -]?phrase(?::? is set to| set to| is| was):?\s{1,4}(?=\S)", re.IGNORECASE)
# What logs say of a passphrase, and what is none.
_OF_IT = pattern(
    r"(?:a|an|the|this|that|too|not|no|never|now|only|also|already|being|been|still|always|in|on|at|for|from|by|to|of"
    r"|as|if|when|required|needed|missing|empty|set|unset|wrong|incorrect|invalid|valid|expired|used|unused|given"
    r"|provided|stored|saved|cached|read|asked|requested|optional|mandatory|protected|weak|strong|short|long|blank"
    r"|ignored|disabled|enabled|unknown|none|null|true|false|different|shown|hidden|accepted|rejected|checked"
    r"|verified|encrypted|hashed|supported|unsupported|changed|entered|specified|generated|derived|same"
    r"|(?:ok|okay|correct|right|good|fine|bad)(?=\W*(?:$|\n|and\b|but\b|so\b|for\b)))\b",
    re.IGNORECASE,
)
# At most 24 words, as many as a phrase may have.
_SENTENCE = pattern(r"[^\s\"'`,;]+(?: [^\s\"'`,;]+){0,23}")
_QUOTED = pattern(r"\\{0,7}([\"'`])([^\"'`\n]{1,400})")


def find_phrases(text: str) -> Iterator[Span]:
    """Yield (first, last+1) of each passphrase and seed phrase."""
    for match in _SEED.finditer(text):
        yield match.span(1)
    for match in _SAID.finditer(text):
        quoted = _QUOTED.match(text, match.end())
        if quoted:
            yield quoted.start(2), quoted.start(2) + len(quoted[2].rstrip("\\"))
        elif not _OF_IT.match(text, match.end()):
            sentence = _SENTENCE.match(text, match.end())
            if sentence and len(sentence[0].rstrip(".!")) > 3 and "***" not in sentence[0]:
                yield sentence.start(), sentence.start() + len(sentence[0].rstrip(".!"))
