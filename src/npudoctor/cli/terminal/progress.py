"""How far a long reading is, for a person at a terminal; nobody else sees anything of it."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Optional

_AFTER = 0.7  # seconds: what is done sooner needs no bar
_EVERY = 0.1
_WIDTH = 30


class Progress:
    """A bar on standard error, gone when it is done."""

    def __init__(self) -> None:
        self._seen = os.isatty(2)
        self._next = time.monotonic() + _AFTER
        self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._drawn:
            self._write("\r\x1b[K")

    def show(self, done: int, total: int) -> None:
        """Draw it, now and then."""
        now = time.monotonic()
        if not self._seen or now < self._next or not total:
            return
        self._next, self._drawn = now + _EVERY, True
        part = min(1.0, done / total)
        bar = "#" * round(part * _WIDTH)
        self._write(f"\r[{bar:<{_WIDTH}}] {part:4.0%} {done / 1e6:.0f}/{total / 1e6:.0f} MB")

    def _write(self, text: str) -> None:
        try:
            os.write(2, text.encode())
        except OSError:
            self._seen = False
