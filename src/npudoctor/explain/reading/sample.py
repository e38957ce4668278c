"""What logs look like before they are read: with much data, what is looked for is chosen by that."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from npudoctor.core import forked
from npudoctor.explain.reading.opening import Opener, UnreadableLog
from npudoctor.explain.reading.reading import open_log
from npudoctor.explain.reading.walk import Log
from npudoctor.explain.signatures.pieces import Sample

_SAMPLED, _SAMPLE = 8, 16 << 10  # so many logs, and bytes of each, show what all are like


def sample_of(logs: Sequence[Log]) -> Sample:
    """What the largest logs look like, in their middle; nothing of them when they do not answer."""

    def middles() -> bytes:
        parts, opener = [], Opener()
        for log in sorted(logs, key=lambda log: -log.size)[:_SAMPLED]:
            with (
                contextlib.suppress(OSError, UnreadableLog),
                open(open_log(opener, log), "rb", buffering=0) as file,
            ):
                file.seek(log.size // 2, os.SEEK_SET)
                parts.append(file.read(_SAMPLE))
        return b"\n".join(parts)

    try:
        return Sample(forked.ask(middles))
    except forked.Late:
        return Sample(b"")
