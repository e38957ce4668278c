"""Dumps of an environment: many variables one below the other, or in one line, whoever prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

Span = tuple[int, int]  # first and last+1 of a value in its line

LEAST = 5  # variables in a row: fewer may be anything
_CUT = 2  # the same at an end of what is shown, where the rest of the dump may lie beyond it
_NAME = re.compile(r"(?:^|(?<=[\s\"'\])>|]))([A-Za-z_][A-Za-z0-9_]{0,100})=")
_FAR = 200  # characters of a line among which the name of its variable begins
# In one line: NAME=value, "NAME": "value", ('NAME', 'value').
_PAIR = re.compile(
    r"(?<![A-Za-z0-9_-])(?P<name>[A-Z][A-Z0-9_]{1,100})(?:=|\\{0,3}[\"']\s?[:,]\s?)"
    r"(?P<value>\\{0,3}\"[^\"\n]{0,8192}\"|\\{0,3}'[^'\n]{0,8192}'|[^\s,;'\"}\])]{1,8192})"
)
_DIGITS = re.compile(r"\d+")


def find_dumped(lines: Sequence[str]) -> Iterator[tuple[int, str, Span]]:
    """Every variable of a dump: the number of its line, its name, and where its value is."""
    run: list[tuple[int, str, Span]] = []
    before = ""  # what stands before each name of the run, however its numbers differ
    for number, line in enumerate([*lines, ""]):
        begun = {_DIGITS.sub("0", line[: match.start()]): match for match in _NAME.finditer(line, 0, _FAR)}
        if run and before not in begun:
            yield from _run(run, len(lines))
            run = []
        if not run:
            before = next((key for key, match in begun.items() if match[1].isupper()), "")
        if before in begun and (run or begun[before][1].isupper()):
            run.append((number, begun[before][1], (begun[before].end(), len(line))))
    for number, line in enumerate(lines):
        pairs = list(_PAIR.finditer(line))
        if len({pair["name"] for pair in pairs}) >= LEAST:
            yield from ((number, pair["name"], pair.span("value")) for pair in pairs)


def _run(run: Sequence[tuple[int, str, Span]], count: int) -> Iterator[tuple[int, str, Span]]:
    """The variables of a run of lines, if it is a dump: many different names, most of them of capitals."""
    names = {name for _number, name, _span in run if name.isupper()}
    cut = run[0][0] == 0 or run[-1][0] == count - 1
    if len(names) >= (_CUT if cut else LEAST):
        yield from run


def replace_spans(line: str, spans: Iterable[Span], by: str) -> str:
    """The line with something else in these places, which may overlap."""
    last: Optional[int] = None
    for begin, end in sorted(spans, reverse=True):
        if last is None or end <= last:
            line, last = line[:begin] + by + line[end:], begin
    return line
