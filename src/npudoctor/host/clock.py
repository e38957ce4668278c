"""The time, whether something keeps it right, and the wait between a first and a second look."""

from __future__ import annotations

import time
from typing import Optional

STA_UNSYNC = 0x40
TIMEX_SIZE, TIMEX_STATUS = 256, 40  # struct timex where long has 64 bits: bytes at most, and its field status


class Clock:
    """Seconds since the epoch, and waiting. All that must be asked twice shares one wait."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def booted(self) -> float:
        """When the machine booted, in seconds since the epoch.

        From the kernel's clocks, not from btime, which psutil has: it is cut to seconds and follows clock
        changes late.
        """
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)

    def steady(self) -> float:
        """Seconds of a clock that nobody sets."""
        return time.monotonic()

    def wait_until(self, steady: float) -> None:
        """Sleep until the steady clock shows this; no time passes when it does already."""
        time.sleep(max(0.0, steady - time.monotonic()))

    def synchronised(self) -> Optional[bool]:
        """Whether the kernel was told that its clock is kept right; None when it does not say.

        adjtimex(2) with no mode set reads only. A sandbox may forbid it.
        """
        import ctypes
        import struct

        if ctypes.sizeof(ctypes.c_long) != 8:
            return None
        timex = ctypes.create_string_buffer(TIMEX_SIZE)
        try:
            state = ctypes.CDLL(None, use_errno=True).adjtimex(timex)
        except (AttributeError, OSError):  # a C library without it
            return None
        if state < 0:
            return None
        return not struct.unpack_from("=i", timex.raw, TIMEX_STATUS)[0] & STA_UNSYNC
