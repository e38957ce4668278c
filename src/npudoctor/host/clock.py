"""The time, and the wait between a first and a second look."""

from __future__ import annotations

import time


class Clock:
    """Seconds since the epoch, and waiting. All that must be asked twice shares one wait."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def steady(self) -> float:
        """Seconds of a clock that nobody sets."""
        return time.monotonic()

    def wait_until(self, steady: float) -> None:
        """Sleep until the steady clock shows this; no time passes when it does already."""
        time.sleep(max(0.0, steady - time.monotonic()))
