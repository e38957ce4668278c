"""Reads the lines around findings once more, for somebody without the logs; bounded, and without secrets."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from npudoctor.core import forked
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.redact.redactor import Redactor
from npudoctor.explain.ranking.candidates import Spot
from npudoctor.explain.ranking.diagnosis import Diagnosis
from npudoctor.explain.reading.opening import Opener, UnreadableLog
from npudoctor.explain.reading.reading import open_log
from npudoctor.explain.reading.sources import source_of
from npudoctor.explain.reading.walk import Log
from npudoctor.explain.scanning.window import LONG, decode

AROUND = 200  # lines before and after
SECONDS = 20.0  # that all of them may take together
_GAP = "..."
MOST = 20 << 20  # bytes of all excerpts together


@dataclass(frozen=True)
class Excerpt:
    """The lines of one file as `text`, or in `missing` why there are none."""

    path: str
    text: str = ""
    missing: str = ""


def read_excerpts(
    diagnoses: Sequence[Diagnosis], errors: Sequence[Spot], logs: Mapping[str, Log], redactor: Redactor
) -> Iterator[Excerpt]:
    """One for each file in which something was found first. They are read once more: of files that are no
    longer those that were explained, and of what is past the bounds, it is said that there is nothing."""
    numbers: dict[str, set[int]] = {}  # of the lines, by the path of their file
    for spot in (*(diagnosis.first for diagnosis in diagnoses), *errors):
        if spot is not None:
            numbers.setdefault(spot.path, set()).add(spot.log_line.line)
    for path in [path for path in numbers if path not in logs]:
        del numbers[path]
        yield Excerpt(path, missing=_("it cannot be read a second time"))
    until = time.monotonic() + SECONDS
    try:
        for excerpt, counts in forked.stream(lambda: _read_excerpts(numbers, logs, redactor), until):
            redactor.counts = counts  # those of the child, which went on from ours
            # What remains in `numbers` when the time is over was not read.
            del numbers[excerpt.path]
            yield excerpt
    except forked.Late:
        for path in numbers:
            yield Excerpt(
                path, missing=_("it was not read a second time within {seconds:g} s", seconds=SECONDS)
            )


def _read_excerpts(
    numbers: Mapping[str, set[int]], logs: Mapping[str, Log], redactor: Redactor
) -> Iterator[tuple[Excerpt, Counter[str]]]:
    bytes_left = MOST
    for path in numbers:
        before = redactor.counts.copy()
        excerpt = _read_excerpt(logs[path], numbers[path], redactor)
        size = len(excerpt.text.encode("utf-8", "surrogateescape"))
        if size > bytes_left:
            excerpt = Excerpt(
                path,
                missing=_("these lines would exceed the bundle limit of {most} MiB", most=MOST >> 20),
            )
        if excerpt.missing:
            redactor.counts, size = before, 0  # what was hidden there is not in the bundle either
        bytes_left -= size
        yield excerpt, redactor.counts


def _read_excerpt(log: Log, numbers: set[int], redactor: Redactor) -> Excerpt:
    lines: list[str] = []
    try:
        lines += _lines_around(log, numbers, redactor)
    except (UnreadableLog, OSError) as why:
        return Excerpt(log.path, missing=str(why))
    finally:
        # A private key may be open at the end of a file: the next file begins without it.
        redactor.begin_text()
    if not lines:
        return Excerpt(log.path, missing=_("it is shorter than when it was explained"))
    shown: list[str] = []
    # What lines say beside each other is asked between one gap and the next.
    for gap, group in itertools.groupby(lines, lambda line: line == _GAP):
        part = list(group)
        shown += part if gap else redactor.hide_dumps(part)
    return Excerpt(log.path, "\n".join(shown) + "\n")


def _lines_around(log: Log, numbers: set[int], redactor: Redactor) -> Iterator[str]:
    """Yield the numbered lines around the given ones, and _GAP for a gap; UnreadableLog or OSError."""
    before = 0
    for number, raw in _lines(log, max(numbers) + AROUND):
        near = any(abs(number - line) <= AROUND for line in numbers)
        # What is shown may begin within a private key, so where one begins is looked for from the first line.
        if not near and not redactor.in_private_key and b"PRIVATE KEY" not in raw[:LONG]:
            continue
        line = redactor.line(decode(raw[:LONG]))
        if not near:
            continue
        if number != before + 1:
            yield _GAP
        before = number
        yield f"{number}: {line}"


def _lines(log: Log, last: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a file up to one, each with its number; what is very long is cut."""
    source = source_of(log.path, open_log(Opener(), log), math.inf)
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


def name_in_bundle(path: str, used_names: Mapping[str, bytes]) -> str:
    """A name in the bundle for the excerpt of a file: all of its path, without what could lead elsewhere."""
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    plain = re.sub(r"[^\w.+=@-]", "_", "__".join(parts))[-150:] or "log"
    name, count = f"logs/{plain}.txt", 1
    while name in used_names:
        count += 1
        name = f"logs/{plain}-{count}.txt"
    return name
