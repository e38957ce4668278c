"""What lines say of those that follow: a block of YAML, a column of a table, a value on the next line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Optional

from npudoctor.core.lazy import pattern
from npudoctor.core.redact.names import Weight, looks_secret, weight
from npudoctor.core.redact.nearby import looks_chosen

Span = tuple[int, int]

# What a line must hold to say something of the next.
OPENS = pattern(
    r"(?i)pass|pwd|secret|token|key|cred|auth|cookie|psk|private-lines|\bdata\\?[\"']?:|密码|口令|密钥|令牌|凭证|凭据"
)
# A 16384-bit RSA key in PEM has 200 lines.
_LONGEST = 250  # lines of one block
_PAIR_LINES = 3  # lines between a name and its value
_OPEN = pattern(
    r"(?P<before>.{0,200}?)(?P<name>(?<![\w.-])[\w.-]{1,100}|密码|口令|密钥|令牌|凭证|凭据)(?P<close>\\{0,7}[\"'])?\s{0,8}"
    r"(?:(?P<sign>[:=：＝]|:=|[-=]>|→)\s{0,8}"
    r"(?P<kind>(?:!\w{1,20}\s)?(?:&\w{1,40}\s)?[|>][-+\d]{0,2}|[rbfu]?(?:\"\"\"|''')|\[|\\|!\w{1,20}|&\w{1,40}|)|(?P<flag>\\))\s{0,8}(?:#.{0,80})?$"
)
# A shell line that goes on behind a backslash.
_CONTINUED = pattern(
    r"(?P<before>.{0,200}?)(?P<name>(?<![\w.-])[\w.-]{1,100})\s{0,8}[:=]\s{0,8}\S{1,1000}\\$"
)
# YAML's "? key" with the value on the next line.
_ASKED = pattern(r"(?P<before>\s{0,80})\?\s(?P<name>[\w.-]{1,100})\s{0,80}$")
# XML whose text begins on the next line.
_TAG = pattern(r"<(?P<name>[\w.:-]{1,100})(?:\s[^<>]{0,200})?>\s*(?:<!\[CDATA\[)?\s{0,80}$")
_NAMED = pattern(
    r"(?i)(?:<name>\s{0,4}|\b(?:name|key|id|field|variable|property|parameter)\\{0,7}[\"']?\s{0,4}[:=]\s{0,4}\\{0,7}[\"']?)([\w.-]{1,100})"
    r"(?:\s{0,4}</name>|\\{0,7}[\"']?,?\s{0,80}$)"
)
_ITS_VALUE = pattern(
    r"(?i)(?:<value>|\b(?:value|val|default|content)\\{0,7}[\"']?\s{0,4}[:=]\s{0,4})(?P<value>\S.*?)(?:</value>|\s{0,80})$"
)
_SECRET_KIND = pattern(r"\s{0,80}(?:- )?\\?[\"']?kind\\?[\"']?:\s?\\?[\"']?(\w{1,40})")
_DATA = pattern(r"(?P<before>\s{0,80}\\?[\"']?)(?:data|stringData)\\?[\"']?:\s*\{?\s{0,80}$")
_ENTRY = pattern(r"\s{0,80}\\?[\"']?[\w.-]{1,200}\\?[\"']?:\s{0,4}(?P<value>\S.*)$")
# A PuTTY key file says how many lines its private part has.
_PUTTY = pattern(r"Private-Lines:\s?(\d{1,3})\s{0,80}$")
_BARE = pattern(r"\s{0,200}(?:-\s{1,4}|:\s{1,4})?(?P<value>\S.*?)\s*(?:\\|,)?\s{0,80}$")
_MAPPING = pattern(r"\\{0,7}[\"']?[\w.-]{1,100}\\{0,7}[\"']?\s?[:=](?:\s|$)")
# Lines that only draw the frame of a table belong to it and have no cells.
_BORDER = pattern(r"[\s|+=:│┃║├┤┼┬┴─━═┌┐└┘╪╬-]{3,}$")
_HEADING = pattern(r"[A-Za-z\u4e00-\u9fff][\w .()/-]{0,39}$")
# By preference: a table drawn with bars may also contain commas.
_SEPARATORS = (
    pattern(r"[|│┃║]"),
    pattern(r"\t"),
    pattern(r","),
    pattern(r";"),
    pattern(r" {2,}"),
)
_DIGITS = pattern(r"\d")
# A weaker name would hide ordinary text on the lines below it.
_STRONG = (Weight.SECRET, Weight.TOKEN, Weight.TYPED)


class Context:
    """Reads one line after the other; each call returns which parts of the line are secret because of the
    lines before.
    """

    def __init__(self) -> None:
        self._block: Optional[tuple[str, str, Weight]] = None  # its kind, what stands before the name, weight
        self._left = 0  # lines that the block may still have
        self._pair = 0  # lines in which the value of a name may follow
        self._secret = False  # within an object of kind Secret
        self._api = 0  # lines since the beginning of an object
        self._data: Optional[str] = None  # what stands before "data:"
        self._table: Optional[tuple[re.Pattern[str], int, dict[int, Weight]]] = None

    @property
    def open(self) -> bool:
        """Whether a line before makes something of the next one secret."""
        return bool(
            self._block or self._pair or self._table or self._secret or self._api or self._data is not None
        )

    def line(self, line: str) -> list[Span]:
        """The secret parts of the next line, as (first, last+1)."""
        line = line.rstrip("\r\n")
        spans: list[Span] = []
        if self.open:
            spans += self._find_in_cells(line)
            spans += self._find_in_block(line)
            spans += self._find_in_pair(line)
            spans += self._find_in_data(line)
        # A longer line is no line of YAML and no heading of a table; the patterns are not tried on it.
        if len(line) <= 2000:
            self._track_objects(line)
            if OPENS.search(line) and not (self._block and self._block[0] == "block"):
                self._open_state(line)
        return spans

    def _track_objects(self, line: str) -> None:
        """Note whether this line is within a Kubernetes Secret, whose `data` is secret under every key."""
        kind = _SECRET_KIND.match(line) if "kind" in line else None
        if kind:
            self._secret = kind[1] == "Secret"
        elif line.startswith("---") and not line.strip("- "):
            self._secret = False
        # `kind` may follow `data`: kubectl prints the keys of an object in the order of the alphabet.
        self._api = 12 if "apiVersion" in line[:200] else max(0, self._api - 1)

    def _open_state(self, line: str) -> None:
        # Outside of Kubernetes "data:" is a word like any other; `kind` may follow it.
        if (self._secret or self._api) and (data := _DATA.match(line)):
            self._data, self._left = data["before"].rstrip("\\\"'"), _LONGEST
            return
        name_match = _NAMED.search(line)
        if name_match and weight(name_match[1]) in _STRONG:
            self._pair = _PAIR_LINES + 1
            return
        putty = _PUTTY.match(line)
        if putty:
            self._block, self._left = ("block", "", Weight.SECRET), int(putty[1])
            return
        match = _find_opening(line)
        if match:
            self._begin_block(match)
        elif self._table is None:
            self._read_headings(line)

    def _begin_block(self, match: re.Match[str]) -> None:
        name_weight = weight(match["name"].replace(":", "_"))
        # "max_tokens:" at the end of a line announces a number, not a token.
        counted = match["name"].lower().endswith("tokens") and match.re is not _OPEN
        if name_weight not in _STRONG or counted:
            return
        if match.re is _TAG:
            self._block = ("tag", match["name"], name_weight)
        elif match.re in (_ASKED, _CONTINUED):
            self._block = ("next", match["before"], name_weight)
        else:
            kind = (match["kind"] or "").strip()
            shape = "next"
            if match["flag"] and "-" not in match["name"][:2]:
                return
            if kind.endswith(("|", ">")) or kind[-2:-1] in ("|", ">") or kind[-3:-2] in ("|", ">"):
                shape = "block"
            elif kind[-3:] in ('"""', "'''"):
                shape = kind[-3:]
            elif kind == "[":
                shape = "["
            self._block = (shape, match["before"], name_weight)
        self._left = _LONGEST if self._block[0] != "next" else 2

    def _find_in_block(self, line: str) -> list[Span]:
        if not self._block:
            return []
        kind, before, name_weight = self._block
        self._left -= 1
        if self._left < 0:
            self._block = None
            return []
        if not line.strip():
            return []
        value = _BARE.match(line)
        if value is None:
            return []
        # These end at their own sign; all others by indentation.
        if kind in ("tag", "[", '"""', "'''"):
            end = line.find({"tag": "</", "[": "]"}.get(kind, kind))
            if end >= 0:
                self._block = None
            stop = len(line) if end < 0 else end
            begin = value.start("value")
            return (
                [(begin, len(line[:stop].rstrip()))]
                if len(line[:stop].rstrip()) > begin and line[begin] != "<"
                else []
            )
        return self._follow_indent(line, kind, before, name_weight, value)

    def _follow_indent(
        self, line: str, kind: str, before: str, name_weight: Weight, value: re.Match[str]
    ) -> list[Span]:
        size = len(before)
        # What stands before the name may be a time stamp or a line number: it counts as the same when only
        # digits differ.
        same = _DIGITS.sub("0", line[:size]) == _DIGITS.sub("0", before)
        # The first key of an item stands behind the dash, the others below it.
        if not same and before.endswith("- "):
            same = line[:size] == before[:-2] + "  "
        content = line[size:] if same else line
        deeper = same and content[:1] in (" ", "\t")
        if kind == "block":
            if not deeper:
                self._block = None
                return []
            begin = size + len(content) - len(content.lstrip())
            return [(begin, len(line.rstrip()))]
        begin, end = (size if same else 0) + len(content) - len(content.lstrip()), len(line.rstrip())
        item = content.lstrip().startswith("- ")
        if item or content.startswith(": "):
            begin += 2
        entry = line[begin:end].rstrip(",\\ ")
        if (
            not entry
            or _MAPPING.match(entry)
            or not (item or self._is_single_value(entry, name_weight, deeper))
        ):
            self._block = None
            return []
        if item:
            self._left = max(self._left, 1)
        else:
            self._block = None
        return [(begin, begin + len(entry))] if looks_secret(entry.strip("\"'"), name_weight) else []

    def _is_single_value(self, value: str, name_weight: Weight, deeper: bool) -> bool:
        """Return whether the text is one value and no sentence."""
        quoted = value[:1] in "\"'" and value[-1:] == value[:1] and len(value) > 2
        if quoted or (deeper and name_weight is Weight.SECRET):
            return quoted or " " not in value
        return looks_chosen(value, 6, numbered=name_weight is Weight.SECRET)

    def _find_in_pair(self, line: str) -> list[Span]:
        if not self._pair:
            return []
        self._pair -= 1
        match = _ITS_VALUE.search(line)
        if not match:
            return []
        self._pair = 0
        begin, value = match.start("value"), match["value"].rstrip(",")
        bare = value.strip("\\\"'")
        begin += value.find(bare)
        return [(begin, begin + len(bare))] if looks_secret(bare, Weight.SECRET) else []

    def _find_in_data(self, line: str) -> list[Span]:
        if self._data is None or not line.strip():
            return []
        self._left -= 1
        if not line.startswith(self._data + " ") or self._left < 0:
            self._data = None
            return []
        entry = _ENTRY.match(line)
        begin, value = (
            (entry.start("value"), entry["value"])
            if entry
            else (len(line) - len(line.lstrip()), line.strip())
        )
        bare = value.rstrip(" ,").strip("\\\"'")
        begin += value.find(bare)
        # Before `kind` is known only what looks random is hidden.
        sure = self._secret or looks_secret(bare, Weight.RANDOM)
        return (
            [(begin, begin + len(bare))]
            if sure and bare not in "|>{}" and looks_secret(bare, Weight.SECRET)
            else []
        )

    def _read_headings(self, line: str) -> None:
        """Remembers the columns of a table that hold secrets, if this is its first row."""
        # No table for people is wider.
        if len(line) > 400:
            return
        for separator in _SEPARATORS:
            cells = [line[begin:end].strip().strip("\"'*") for begin, end in _cells(line, separator)]
            if len(cells) > 1 and all(_HEADING.match(cell) for cell in cells):
                weight_by_column = {
                    number: weight(cell.replace(" ", "_")) for number, cell in enumerate(cells)
                }
                weight_by_column = {
                    number: name_weight
                    for number, name_weight in weight_by_column.items()
                    if name_weight in _STRONG
                }
                if weight_by_column:
                    self._table, self._left = (separator, len(cells), weight_by_column), _LONGEST
                return

    def _find_in_cells(self, line: str) -> list[Span]:
        if self._table is None or _BORDER.match(line):
            return []
        separator, count, weight_by_column = self._table
        cells = _cells(line, separator) if len(line) <= 4000 else []
        self._left -= 1
        # A row with another number of cells is no row of this table.
        if len(cells) != count or self._left < 0:
            self._table = None
            return []
        secrets = []
        for number, name_weight in weight_by_column.items():
            begin, end = cells[number]
            cell = line[begin:end].strip()
            sure = (name_weight is Weight.SECRET and looks_secret(cell, name_weight)) or looks_chosen(cell, 6)
            if cell and sure:
                begin = line.index(cell, begin)
                secrets.append((begin, begin + len(cell)))
        return secrets


def _find_opening(line: str) -> Optional[re.Match[str]]:
    """The name at the end of a line whose value begins on the next."""
    match = _ASKED.match(line) or (_TAG.search(line) if line[-1:] == ">" else None) or _CONTINUED.match(line)
    if match:
        return match
    ends = line.rstrip()[-1:] in ":=：＝|>+-[\\\"'→" or "#" in line or line[-1:].isalnum()
    return _OPEN.match(line) if ends else None


def _cells(line: str, separator: re.Pattern[str]) -> Sequence[Span]:
    """Where the cells of a row are; the frame around the row is none."""
    begin, end = len(line) - len(line.lstrip(" |│┃║")), len(line.rstrip(" |│┃║"))
    cells = []
    for match in separator.finditer(line, begin, end):
        cells.append((begin, match.start()))
        begin = match.end()
    return [*cells, (begin, end)]
