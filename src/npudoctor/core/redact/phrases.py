"""Secrets of several words: what follows "mnemonic" or "passphrase is" in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]

# Wallets and key tools make phrases of 12 to 24 words of three to eight letters. An ordinary sentence has
# "of", "is" or "to" before its twelfth word.
_SEED = re.compile(
    r"\b(?:mnemonic|(?:seed|recovery|backup)(?:[ _-]?phrase| words))s?\b(?:[ _-]?(?:phrase|words))?"
    r"(?:\s(?:is|was))?[^\w\n]{0,8}((?:[a-z]{3,8}[^\w\n]{1,4}){11,23}[a-z]{3,8})(?![\w-])",
    re.IGNORECASE,
)
_SAID = re.compile(r"\bpass[ -]?phrase(?::? is set to| set to| is| was):?\s{1,4}(?=\S)", re.IGNORECASE)
# What logs say of a passphrase, and what is none.
_OF_IT = re.compile(
    r"(?:a|an|the|this|that|too|not|no|never|now|only|also|already|being|been|still|always|in|on|at|for|from|by|to|of"
    r"|as|if|when|required|needed|missing|empty|set|unset|wrong|incorrect|invalid|valid|expired|used|unused|given"
    r"|provided|stored|saved|cached|read|asked|requested|optional|mandatory|protected|weak|strong|short|long|blank"
    r"|ignored|disabled|enabled|unknown|none|null|true|false|different|shown|hidden|accepted|rejected|checked"
    r"|verified|encrypted|hashed|supported|unsupported|changed|entered|specified|generated|derived|same"
    r"|(?:ok|okay|correct|right|good|fine|bad)(?=\W*(?:$|\n|and\b|but\b|so\b|for\b)))\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^\s\"'`,;]+(?: [^\s\"'`,;]+){0,23}")
_QUOTED = re.compile(r"\\{0,7}([\"'`])([^\"'`\n]{1,400})")


def find_phrases(text: str) -> Iterator[Span]:
    """First and last+1 of each."""
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
