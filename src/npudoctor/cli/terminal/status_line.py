"""One line on a terminal's standard error that says what goes on; nobody else sees anything of it."""

from __future__ import annotations

import os
import threading

from npudoctor.render.columns import width
from npudoctor.render.printable import printable

_CLEAR = "\r\x1b[K"


class StatusLine:
    """Drawn anew in place, and taken away before anything else is written there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn = False

    def draw(self, text: str) -> None:
        """Show this text, as much of it as fits."""
        text = printable(text)
        try:
            room = (os.get_terminal_size(2).columns or 80) - 1
        except OSError:
            room = 79
        if width(text) > room:
            while text and width(text) > room - 3:
                text = text[:-1]
            text = f"{text}..."[: max(room, 0)]
        with self._lock:
            self._drawn = self._write(_CLEAR + text)

    def clear(self) -> None:
        """Take the line away."""
        with self._lock:
            if self._drawn:
                self._write(_CLEAR)
            self._drawn = False

    def _write(self, text: str) -> bool:
        try:
            os.write(2, text.encode("utf-8", "replace"))
        except OSError:
            return False
        return True


LINE = StatusLine()


def can_show() -> bool:
    """Whether standard error is a terminal that can rewrite a line, and that is ours to write to now."""
    if not os.isatty(2) or (os.environ.get("TERM") or "dumb") == "dumb":
        return False
    try:
        return os.tcgetpgrp(2) == os.getpgrp()  # in the background it would spoil what others write
    except OSError:  # it controls no process of ours
        return True
