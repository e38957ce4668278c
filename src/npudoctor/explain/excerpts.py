"""The lines around what was found, for a person who has not the logs: bounded, and without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from npudoctor.explain.candidates import Spot
from npudoctor.explain.judge import Diagnosis
from npudoctor.explain.sources import Unreadable, opened
from npudoctor.explain.window import LONG, decoded
from npudoctor.redact import redact

AROUND = 200  # lines before and after
MOST = 20 << 20  # bytes of all excerpts together
_KEY = re.compile(r"-----(BEGIN|END) [A-Z ]*PRIVATE KEY-----")


def excerpts(diagnoses: Sequence[Diagnosis], errors: Sequence[Spot]) -> Iterator[tuple[str, str]]:
    """Path and text of each file in which something was found first; what is past the bound is left out."""
    wanted: dict[str, set[int]] = {}
    for spot in (*(one.first for one in diagnoses), *errors):
        if spot is not None and spot.path != "-":
            wanted.setdefault(spot.path, set()).add(spot.seen.line)
    left = MOST
    for path, numbers in wanted.items():
        text = "\n".join(_around(path, numbers)) + "\n"
        left -= len(text.encode("utf-8", "surrogateescape"))
        if left < 0:
            return
        yield path, text


def _around(path: str, numbers: set[int]) -> Iterator[str]:
    """The numbered lines around those that are asked for; a gap is shown as one."""
    ranges = _ranges(numbers)
    before, secret = 0, False
    for number, raw in _lines(path, max(numbers) + AROUND):
        line = decoded(raw[:LONG]) if secret or b"PRIVATE KEY" in raw[:LONG] else ""
        key = _KEY.search(line)  # also where nothing is shown: what is may begin within a key
        hidden, secret = bool(secret or key), key[1] == "BEGIN" if key else secret
        if not any(first <= number <= last for first, last in ranges):
            continue
        if number != before + 1:
            yield "..."
        before = number
        yield f"{number}: {'***' if hidden else redact(decoded(raw[:LONG]))}"


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    return [(number - AROUND, number + AROUND) for number in sorted(numbers)]


def _lines(path: str, last: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a file up to one, each with its number; what is very long is cut."""
    try:
        source = opened(path)
    except Unreadable:
        return
    try:
        number, held = 1, b""
        for piece in source.pieces():
            lines = (held + piece).split(b"\n")
            held = lines.pop()[: 4 * LONG]
            for line in lines:
                yield number, line
                number += 1
                if number > last:
                    return
        if held:
            yield number, held
    finally:
        source.close()


def named(path: str, taken: Mapping[str, bytes]) -> str:
    """A name in the bundle for the excerpt of a file: all of its path, without what could lead elsewhere."""
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    plain = re.sub(r"[^\w.+=@-]", "_", "__".join(parts))[-150:] or "log"
    name, count = f"logs/{plain}.txt", 1
    while name in taken:
        count += 1
        name = f"logs/{plain}-{count}.txt"
    return name
