"""The clocks of the machine, whether they are synchronised, and the wait before a second look."""

from __future__ import annotations

import time
from typing import Optional

STA_UNSYNC = 0x40  # of linux/timex.h: ntpd, chronyd and others clear it
# struct timex with longs of 64 bits has 208 bytes, the rest is to spare; `status` is at offset 40.
TIMEX_SIZE, TIMEX_STATUS = 256, 40


class Clock:
    """The clocks of the machine, in seconds. Everything that must be looked at twice shares one wait."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def boot_time(self) -> float:
        """When the machine booted, in seconds since the epoch.

        From the kernel's clocks, not from btime of /proc/stat, which psutil reads: that one is in whole
        seconds and follows changes of the clock late.
        """
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)

    def monotonic(self) -> float:
        """Seconds of CLOCK_MONOTONIC, which nobody can set."""
        return time.monotonic()

    def wait_until(self, steady: float) -> None:
        """Sleep until the monotonic clock shows `steady`, in seconds; return at once if it is past."""
        time.sleep(max(0.0, steady - time.monotonic()))

    def is_synchronised(self) -> Optional[bool]:
        """Whether the kernel's clock is marked as synchronised; None if the kernel does not say.

        adjtimex(2) with no mode set only reads, and needs no rights; a sandbox may forbid it.
        """
        import ctypes
        import struct

        if ctypes.sizeof(ctypes.c_long) != 8:
            return None  # TIMEX_STATUS is the offset with longs of 64 bits
        timex = ctypes.create_string_buffer(TIMEX_SIZE)
        try:
            state = ctypes.CDLL(None, use_errno=True).adjtimex(timex)
        except (AttributeError, OSError):  # a C library without it
            return None
        if state < 0:
            return None
        return not struct.unpack_from("=i", timex.raw, TIMEX_STATUS)[0] & STA_UNSYNC
