"""The lines around the one that decides, read once more from its file. Of a pipe, of a packed file and of one
that has changed since there are none."""

from __future__ import annotations

import os

from npudoctor.core import forked
from npudoctor.core.frozen import dataclass, field
from npudoctor.core.lazy import pattern
from npudoctor.core.redact.redact import redact_lines
from npudoctor.explain.ranking.candidates import Spot
from npudoctor.explain.reading.opening import Opener, UnreadableLog
from npudoctor.explain.reading.reading import open_log
from npudoctor.explain.reading.walk import Log
from npudoctor.explain.scanning.window import LONG, Window, decode

_LINES = 2  # before it, and after it
_SECONDS = 2.0
_AROUND = _LINES * LONG
# What is shown may begin within a private key, of which no line tells that it is one.
_KEY = pattern(rb"PRIVATE KEY|(?:^|\n)[A-Za-z0-9+/]{60,}={0,2}\r?(?:\n|$)")


@dataclass(frozen=True)
class ContextLines:
    """The lines before and after one, without secrets."""

    before: tuple[str, ...] = field(default=())
    after: tuple[str, ...] = field(default=())


def read_context(log: Log, spot: Spot) -> ContextLines:
    """The two lines before and after a spot; none where they cannot be had."""
    try:
        # A share that answered the scan may hang now.
        return forked.ask(lambda: _read(log, spot), _SECONDS)
    except (forked.Late, OSError):
        return ContextLines()


def _read(log: Log, spot: Spot) -> ContextLines:
    line = spot.log_line
    begin = max(0, line.offset - _AROUND)
    try:
        descriptor = open_log(Opener(), log)
    except (UnreadableLog, OSError):
        return ContextLines()
    try:
        data = os.pread(descriptor, line.offset - begin + LONG + _AROUND, begin)
    except OSError:
        return ContextLines()
    finally:
        os.close(descriptor)
    start = line.offset - begin
    window = Window(data, begin)
    _start, end = window.bounds(start)
    # The offset is of what was scanned: of a packed file, or of another encoding, something else lies there.
    shown_text = line.text.strip()[:200]
    is_same = bool(shown_text) and decode(data[start:end]).strip().startswith(shown_text)
    # Of a line in pieces nothing is shown: a secret may begin in one and end in another.
    is_whole = data[start - 1 : start] in (b"", b"\n") and data[end : end + 1] in (b"", b"\n")
    if not is_same or not is_whole or _KEY.search(data):
        return ContextLines()
    before = [text for text in _whole_lines(data[:start], begin == 0) if text.strip()]
    after = [text for text in window.after(end, _LINES) if text.strip()]
    shown = redact_lines((*before, line.text, *after))
    return ContextLines(shown[: len(before)], shown[len(before) + 1 :])


def _whole_lines(data: bytes, from_start: bool) -> list[str]:
    """The last lines of which the begin is there: where it was cut off, the name of a secret may be gone."""
    lines = data[:-1].split(b"\n") if data else []
    return [decode(line) for line in (lines if from_start else lines[1:])[-_LINES:]]
