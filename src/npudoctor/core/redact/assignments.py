"""Values that a name announces: assignments, mappings, pairs, elements, in whatever notation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor.core.lazy import pattern
from npudoctor.core.redact.names import Weight, looks_secret, weight
from npudoctor.core.redact.values import Values

# Blanks without line feeds, and a bounded number: a name does not announce what is on the next line.
_GAP = r"[^\S\n]{0,8}"
# A name is tried once, at its beginning; what separates it from its value is bounded: all is linear.
_ASSIGNED = pattern(
    rf"(?<![\w.-])([\w.-]{{1,200}})(?:(?:\\{{0,7}}[\"'`]\]?)?{_GAP}(?:=>|:=|==?|：|＝|:(?!//)){_GAP}"
    rf"|\\{{0,7}}[\"']{_GAP},{_GAP}(?=[bBrRuU]?\\{{0,7}}[\"']))"
)
# In Chinese no blank separates the words: what follows must be ASCII, as passwords are.
_SAID = pattern(rf"((?:密码|口令|密钥|令牌|私钥)){_GAP}(?:[是为]{_GAP}[：:]?|[：:=]|\s){_GAP}(?=[!-~]{{6}})")
# A sentence counts only where what follows has a digit and five characters: "the password is wrong" has none.
_ENGLISH = pattern(
    r"(?i)\b(password|passphrase|token|secret|api[ -]?key)"
    r"(?: is| was|:? is set to| set to) {1,4}(?=[\"']?\S{0,40}\d)(?=[\"']?\S{5})"
)
_BARE_KEY = pattern(r"(?i)\b(api key):?\s{1,4}(?:is\s)?(?=[0-9a-z]{20})")
# Name and value as two words: setenv, fish's set -x, Dockerfile's ENV and ARG, npm config set.
_SET = pattern(
    r"(?i)\b(?:setenv|set\s{1,4}-[a-z]{1,4}|env|arg|config set|npm set)\s{1,4}"
    r"([\w./:@-]{1,200}?)\s{1,4}(?=[^\s=])"
)
# XML, as Hadoop's and Maven's settings have it: <password>...</password>.
_ELEMENT = pattern(r"<([\w.:-]{1,100})(?:\s[^<>]{0,100})?>(?=[^<])")
# Kubernetes writes `name: X` and `value: Y`; AWS and others use key, field, parameter.
_PAIRED = pattern(
    r"(?i)\b(?:name|key|id|field|variable|property|param(?:eter)?)\\{0,7}[\"']?\s{0,4}[:=]\s{0,4}(?:\\{0,7}[\"'])?([\w.-]{1,100})(?:\\{0,7}[\"'])?"
    r"[\s,;]{1,40}(?:\\{0,7}[\"'])?(?:value|val|default|content)\\{0,7}[\"']?\s{0,4}[:=]\s{0,4}"
)
# Hadoop: <name>X</name><value>Y</value>; plists: <key>X</key><string>Y</string>.
_PAIRED_ELEMENTS = pattern(
    r"(?i)<(?:name|key)>\s{0,8}([^\s<>]{1,100})\s{0,8}</(?:name|key)>\s{0,80}<(?:value|string)>\s{0,8}(?=[^<])"
)
_PAIRED_BACK = pattern(
    r"(?i)\b(?:value|val|content)\\{0,7}[\"']?\s{0,4}[:=]\s{0,4}\\{0,7}[\"']([^\"'\n]{1,1000}?)\\{0,7}[\"'][\s,;]{1,40}"
    r"(?:\\{0,7}[\"'])?(?:name|key|field|property|param(?:eter)?)\\{0,7}[\"']?\s{0,4}[:=]\s{0,4}\\{0,7}[\"']([\w.-]{1,100})"
)
_FLAG = pattern(r"(?<![\w.-])(--?[a-z][\w-]{1,60})[^\S\n]{1,4}(?!--?[a-z])", re.IGNORECASE)
# Indentation, a line number as grep -n prints it, the dash of a list.
_BEFORE_LINE = pattern(r"[ \t]*(?:\d{1,9}: )?(?:- )?\Z")
_BEFORE_A_PATH = " \t\n\r\"'()[]{}<>,;:=`"

Span = tuple[int, int]


def find_assigned(text: str) -> Iterator[Span]:
    """Yield (first, last+1) of each value to be hidden."""
    values = Values(text)
    yield from _search_values(text, values)
    for match in _PAIRED_BACK.finditer(text):
        if looks_secret(match[1], weight(match[2])):
            yield match.span(1)
    for form in (_SAID, _ENGLISH, _BARE_KEY, _SET, _ELEMENT, _PAIRED, _PAIRED_ELEMENTS, _FLAG):
        # A flag, and what is said in a sentence, is no assignment: only what surely is a secret counts.
        least = Weight.TOKEN if form is _FLAG else Weight.RANDOM
        announced = [(match.end(), weight(match[1])) for match in form.finditer(text)]
        yield from values.find_each(
            (at, name_weight) for at, name_weight in announced if name_weight.value >= least.value
        )


def hides(name: str, value: str) -> bool:
    """Return whether a value is hidden under this name."""
    return looks_secret(value, weight(name))


def _search_values(text: str, values: Values) -> Iterator[Span]:
    at = 0
    while match := _ASSIGNED.search(text, at):
        at = match.end()
        name = match[1]
        if match.start() and text[match.start() - 1] == "\\" and name[0] in "nrt":
            name = name[1:]  # without the letter of a "\n" that stands before it
        name_weight = weight(name)
        if name_weight is Weight.NONE or _ends_path(text, match):
            continue
        # The verdict of a test is none, as in "PASS: tests/matmul.sh".
        if match[0].startswith("PASS: ") and match.start() == text.rfind("\n", 0, match.start()) + 1:
            continue
        span = values.find_hidden(at, name_weight, _is_yaml_line(text, match, name_weight))
        if span:
            yield span
            # What was inside of a hidden value announces nothing.
            at = max(at, span[1])


def _is_yaml_line(text: str, match: re.Match[str], name_weight: Weight) -> bool:
    """Return whether the assignment is a line of YAML, whose value may hold blanks."""
    if ":" not in match[0][len(match[1]) :] or name_weight is not Weight.SECRET:
        return False
    # Sixty characters are more than any indentation with a line number before it; a whole prefix would make
    # this quadratic.
    before = text[max(0, match.start() - 60) : match.start()]
    if "\n" not in before and match.start() > len(before):
        return False
    return bool(_BEFORE_LINE.match(before.rpartition("\n")[2]))


def _ends_path(text: str, match: re.Match[str]) -> bool:
    """Return whether the telling name only ends a path, as in "/etc/passwd: no such file"."""
    if "=" in match[0]:
        return False
    begin = match.start()
    while begin and text[begin - 1] not in _BEFORE_A_PATH:
        begin -= 1
    path = text[begin : match.end()]
    return path.startswith("/") and not path.startswith("//") and "?" not in path
