"""What the logs at hand look like, to know which texts are everywhere in them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from npudoctor.explain.reading.walk import Log

SIZE = 8  # bytes of a piece: so many hyperscan compares before it looks closer
_LOGS, _BYTES = 8, 16 << 10


class Sample:
    """A text that is asked often what is in it, in small letters."""

    def __init__(self, text: bytes) -> None:
        self.text, self._text = text, text.lower()
        self.pieces = pieces_of(self._text)

    def has(self, text: bytes) -> bool:
        """Whether a text in small letters is in it."""
        return (len(text) < SIZE or text[:SIZE] in self.pieces) and text in self._text

    def holds(self, text: bytes, caseless: bool) -> bool:
        """Whether a text is in it, as it is written or in any case."""
        return self.has(text.lower()) and (caseless or text in self.text)


def sample_of(logs: Sequence[Log]) -> Sample:
    """What the largest logs look like, in their middle; nothing of them when they do not answer."""
    from npudoctor.explain.reading import bounded  # the table is built without what reads logs

    try:
        return Sample(bounded.ask(lambda: _middles(logs)))
    except bounded.Late:
        return Sample(b"")


def _middles(logs: Sequence[Log]) -> bytes:
    from npudoctor.explain.reading.opening import Opener, Unreadable
    from npudoctor.explain.reading.reading import opened_log

    parts, opener = [], Opener()
    for log in sorted(logs, key=lambda log: -log.size)[:_LOGS]:
        with (
            contextlib.suppress(OSError, Unreadable),
            open(opened_log(opener, log), "rb", buffering=0) as file,
        ):
            file.seek(log.size // 2, os.SEEK_SET)
            parts.append(file.read(_BYTES))
    return b"\n".join(parts)


def pieces_of(text: bytes) -> frozenset[bytes]:
    """All pieces of a text; a shorter text is its own."""
    return frozenset([text[at : at + SIZE] for at in range(max(1, len(text) - SIZE + 1))])
