"""A status line on standard error, when that is a terminal."""

from __future__ import annotations

import os
import threading

from npudoctor.render.columns import width
from npudoctor.render.printable import printable

# Back to the first column, then erase to the end of the line (ECMA-48 EL).
_CLEAR = "\r\x1b[K"


class StatusLine:
    """A line that is redrawn in place, and removed before anything else is written."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn = False

    def draw(self, text: str) -> None:
        """Show a text, shortened to the width of the terminal."""
        text = printable(text)
        try:
            # One column less: a character in the last one makes some terminals wrap. 0 columns: a terminal
            # without a size.
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
        """Remove the line."""
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
    """Whether standard error is a terminal that can redraw a line, with this process in the foreground."""
    if not os.isatty(2) or (os.environ.get("TERM") or "dumb") == "dumb":
        return False
    try:
        return os.tcgetpgrp(2) == os.getpgrp()  # in the background it would disturb the foreground program
    except OSError:  # ENOTTY: it is not the controlling terminal, so that there is no background
        return True
