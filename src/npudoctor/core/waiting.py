"""How we wait for what runs beside us."""

from __future__ import annotations

import threading
import time

GRACE = 0.5  # what a deadline may be overrun by while answers are gathered
TURN = 0.1


def wait(done: threading.Event, until: float) -> None:
    """Wait in short turns: a signal that comes just before a wait is handled only after it."""
    while not done.is_set() and time.monotonic() < until:
        done.wait(min(TURN, max(0.0, until - time.monotonic())))
