"""Values that stand near a telling name, with anything but a plain sign between the two: arrows, cells of a
table, words of a sentence, brackets, a blank. The weaker the sign, the more the value itself must look
chosen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional

from npudoctor.core.lazy import pattern
from npudoctor.core.redact.names import Weight, looks_secret, weight

Span = tuple[int, int]

_WORD = pattern(
    r"(?i)pass(?:wo?r?d|wd|phrase|code|[ _-]?key)?|pwd|p(?:ass)?w(?=\W)|secret|token|creden"
    r"|(?:api|access|private|account|subscription|signing|encryption)[ _-]?key"
    r"|\bpsk|webhook|cookie|\bauth|[_-]sk\b"
    r"|密码|口令|密钥|令牌|私钥|凭证|凭据|秘钥"
)
_REST = pattern(r"[\w.-]{0,80}")
_BACK = 80  # characters of a name before the word that tells
_PLAIN_PASSWORD = pattern(r"(?i)pass(?:wo?r?d|wd|phrase|code)s?$|pwd$|密码$|口令$")

# What may close the name: quotes, HTML's quote, Markdown's bold.
_CLOSE = r"(?:\\{0,7}[\"'`]|&quot;|\*\*|__)?"
# A remark in brackets between a name and its value: "password (8 characters): ...".
_NOTE = r"(?:\s?\([^()\n]{1,40}\)|\s?\[[^\[\]\n]{0,40}\])?"
# Signs that surely announce a value.
_SIGN = pattern(
    rf"{_CLOSE}{_NOTE}{_CLOSE}[^\S\n]{{0,40}}(?:(?::\s?[\w.\[\], ]{{1,40}})?=(?!>)"
    r"|[-=~]{1,2}>|:{1,2}=|<-|[→⇒➜⟶↦＝：]|[:=]?\s?&quot;|[:=]{1,2}"
    r"|\.{3,100}|&gt;(?:=\s)?|>\s?<!\[CDATA\[|=?\(\s?(?=\\{0,7}[\"'`]))[^\S\n]{0,8}"
)
# Signs that may also only separate: the cell beside it, the field of a list.
_CELL = pattern(
    rf"{_CLOSE}[^\S\n]{{0,60}}(?:[|│┃║¦]|\t{{1,4}}|(?<=\S)[,;~](?=\S)|\]|[-–—](?=\s)|(?<=\s)[(\[]|[(\[](?=[\"']))[^\S\n]{{0,60}}"
)
_LINK = pattern(
    rf"(?i){_CLOSE}{_NOTE}[,]?"
    r"(?:\s(?:is|was|are|were|has been|from|generated|value|set|reset|changed|updated|equals|now|to|as"
    r"|(?:will )?be|:)){1,5}\s?[:=]?\s"
    r"|\s?(?:已经|已|被|现在)?(?:重置|修改|更新|设置|设|改|变更|更换|初始化)?(?:为|是|成|:|：|=)\s{0,4}[:：]?\s{0,4}"
)
# Words between, up to a sign: "token for user bob was: ".
_WORDS = pattern(
    r"(?i)[\"'`]?\s(?:for|of|to|on|is|was|you|we|that|at|in|from|by|used|with|that|which|sent|read|received|provided|entered|given"
    r"|issued)\s(?:[^\s=]{1,60}\s){0,5}?(?:[^\s=]{0,60}?(?:[:=]|[-=]>|[为是])|(?:is|was|are|were)\s)\s{0,4}[:=]?\s{0,4}"
)
_BLANK = pattern(r"[\"'`)]?[^\S\n]{1,40}")
_ANY_BLANK = pattern(r"[^\S\n]{0,40}")  # Chinese needs none
_SLASH = pattern(r"/")
_VALUE = pattern(
    r"[bBrRuUfF]{0,2}\\{0,7}([\"'`])(?P<quoted>[^\"'`\n\\]{1,1024})|(?=[!-~])(?P<bare>[^\s\"'`<>|│┃，。；、\\&]{1,1024})"
)
# Chinese goes on right behind a value: "口令Zx9k登录".
_ASCII = pattern(r"[!-~]+|.+")
# Punctuation that ends the sentence and not the value.
_TRAILING = ".,;:!?)]}>"
# node2, v1.2.3, 12GB/s, 10:30: numbered or measured things, which look mixed.
_NUMBERED = pattern(
    r"[a-z]{2,}[-_]?\d{1,4}$|v?\d+(?:\.\d+)+\S{0,20}$|\d[\d.,]*[a-z%]{1,6}(?:/[a-z]{1,3})?$|\d+[a-z]?[-:/x]\d+\S*$",
    re.I,
)
_JOINED = pattern(r"[a-z]+\d{0,4}(?:[_.:/-](?:[a-z]+\d{0,4}|\d{1,6}))+$", re.IGNORECASE)
_UNLIKE_WORDS = pattern(r"[\d!@#%^*+?]")  # the quick look before the next
_MIXED = pattern(r"\d|(?!^)[!@#%^*+?](?!$)")
# Latin letters only: a Chinese word beside digits is a sentence.
_LETTER = pattern(r"[A-Za-z\u00c0-\u024f]")
_CAPITALS = pattern(r"[A-Z][a-z]+(?:[_.:-][A-Z]?[a-z]+)*\d{2,4}$")
# Words that are counted in logs of training: rank3, step100; and names of algorithms: sha256.
_COUNTED = pattern(r"(?i)(?:sha|md|utf|aes|rsa|base|argon|node|rank|step|line|v)-?\d|\d")
# Brackets, calls, hex, formats of printf: source code, which logs quote beside such names.
_CODE = pattern(r"[\[\](){}$<>]|0x[0-9a-f]|\w+::|[a-z][a-z+.-]{1,12}://|\w+=|--|%[sdrifgx(]", re.IGNORECASE)


def find_nearby(text: str) -> Iterator[Span]:
    """Yield (first, last+1) of each value, for all telling names of a text."""
    done = 0
    for word in _WORD.finditer(text):
        if word.start() < done:
            continue
        begin = word.start()
        least = max(0, begin - _BACK)
        while (
            begin > least
            and (text[begin - 1].isalnum() or text[begin - 1] in "_-.")
            # From U+2E80 on are the characters of Chinese and Japanese, which isalnum() accepts.
            and text[begin - 1] < "\u2e80"
        ):
            begin -= 1
        # What follows a Chinese word is no part of it.
        rest = _REST.match(text, word.end()) if word[0].isascii() else None
        end = rest.end() if rest else word.end()
        while end > word.end() and text[end - 1] in ".-":
            end -= 1
        name_weight = weight(text[begin:end].replace(" ", "_"))
        if name_weight is not Weight.NONE:
            span = _find_value(text, text[begin:end], end, name_weight)
            if span:
                yield span
                end = span[1]
        done = end


def _find_value(text: str, name: str, at: int, name_weight: Weight) -> Optional[Span]:
    plain = bool(_PLAIN_PASSWORD.search(name))
    # The strongest sign first: what follows a colon is judged less strictly than a word of a sentence.
    for form, ask in (
        (_SIGN, _is_value_after_sign),
        (_CELL, _is_value_after_cell),
        (_LINK, _is_value_after_link),
        (_WORDS, _is_value_after_link),
    ):
        match = form.match(text, at)
        value = _VALUE.match(text, match.end()) if match else None
        if value and match:
            span = _value_span(value)
            if ask(text[span[0] : span[1]], name_weight, plain):
                return span
    # A blank announces a value only behind the surest names: "token Zx9k".
    if name_weight in (Weight.SECRET, Weight.TOKEN):
        return _find_after_blank(text, at, plain) or _find_after_slash(text, at)
    return None


def _value_span(value: re.Match[str]) -> Span:
    group = "quoted" if value["quoted"] else "bare"
    text = value[group]
    content = text if group == "quoted" else _ASCII.match(text)[0].rstrip(_TRAILING)  # type: ignore[index]
    return value.start(group), value.start(group) + len(content)


def _is_value_after_sign(value: str, name_weight: Weight, plain: bool) -> bool:
    return (
        looks_chosen(value, 6)
        if name_weight in (Weight.SECRET, Weight.TOKEN, Weight.TYPED)
        else looks_secret(value, name_weight)
    )


def _is_value_after_cell(value: str, name_weight: Weight, plain: bool) -> bool:
    """Return whether a value in the cell beside a telling name is to be hidden."""
    return _is_value_after_sign(value, name_weight, plain) or (
        plain and looks_chosen(value, 5, numbered=True)
    )


def _is_value_after_link(value: str, name_weight: Weight, plain: bool) -> bool:
    return name_weight in (Weight.SECRET, Weight.TOKEN) and looks_chosen(value, 5, numbered=plain)


def _find_after_blank(text: str, at: int, plain: bool) -> Optional[Span]:
    match = (_BLANK if text[at - 1].isascii() else _ANY_BLANK).match(text, at)
    value = _VALUE.match(text, match.end()) if match else None
    if value is None:
        return None
    span = _value_span(value)
    word = text[span[0] : span[1]]
    # A word in quotes beside "password" is one; beside "token" it is what a parser stumbles over.
    if looks_chosen(word, 6, numbered=plain) or (
        plain and value["quoted"] and len(word) >= 6 and word.isalnum() and not word.isalpha()
    ):
        return span
    return None


def _find_after_slash(text: str, at: int) -> Optional[Span]:
    """The next part of a URL's path: /reset/token/X."""
    value = _VALUE.match(text, at + 1) if _SLASH.match(text, at) else None
    if value is None or not value["bare"]:
        return None
    begin, part = value.start(), re.split(r"[/?#]", value["bare"], maxsplit=1)[0].rstrip(_TRAILING)
    return (begin, begin + len(part)) if looks_secret(part, Weight.RANDOM) else None


def looks_chosen(value: str, least: int, numbered: bool = False) -> bool:
    """Return whether a value is no word, number, path or code, but letters mixed with digits or signs.

    `numbered` accepts "hunter2" and "Sunny-Day2024", which otherwise may be "node2" and "Atlas-A2". `least`:
    characters.
    """
    if not least <= len(value) <= 1024 or not _UNLIKE_WORDS.search(value):
        return False
    if not _MIXED.search(value) or not _LETTER.search(value):
        return False
    if " " in value or value[0] in "/~.#@-" or not looks_secret(value, Weight.TOKEN):
        return False
    if _CODE.search(value) or (_JOINED.match(value) and not (numbered and _CAPITALS.match(value))):
        return False
    return not (_NUMBERED.match(value) and (not numbered or _COUNTED.match(value)))
