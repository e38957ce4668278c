"""Sizes as people read them."""

from __future__ import annotations


def size_text(count: int) -> str:
    """Write a number of bytes in the largest unit that they fill, to a tenth: 1.5 GiB."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            # Without ".0": 2 GiB, and not 2.0 GiB.
            return f"{round(count / (1 << power), 1):g} {unit}"
    return f"{count} B"
