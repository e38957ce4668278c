"""When a line was written, in the forms that logs of training jobs use: local time, only to be compared."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Optional

from npudoctor.core.lazy import pattern

_FULL = pattern(r"(20\d\d)[-/](\d\d?)[-/](\d\d?)[-T ,](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
# month/day/year
_US = pattern(r"\b(\d\d)/(\d\d)/(20\d\d) (\d\d):(\d\d):(\d\d)()")
# glog and absl: I0131 12:34:56.789, without a year.
_GLOG = pattern(r"^\[?[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_SHORT = pattern(r"\b(?:ERROR|WARNING|INFO|DEBUG) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)()")


def parse_moment(line: str, year: int) -> Optional[float]:
    """The seconds since the epoch that a line names, as if it were UTC; `year` for forms without one."""
    start = line[:200]
    match = _FULL.search(start)
    if match:
        return _seconds(match.groups())
    match = _US.search(start)
    if match:
        month, day, full, *rest = match.groups()
        return _seconds((full, month, day, *rest))
    match = _GLOG.search(start) or _SHORT.search(start)
    return _seconds((str(year), *match.groups())) if match else None


def nearest_moment(lines: Sequence[str], index: int, year: int) -> Optional[float]:
    """The time of a line, or of the last one before it that names one, or of the first after it."""
    for line in (*lines[index::-1], *lines[index + 1 :]):
        seconds = parse_moment(line, year)
        if seconds is not None:
            return seconds
    return None


def _seconds(parts: Sequence[Optional[str]]) -> Optional[float]:
    year, month, day, hour, minute, second = (int(part or 0) for part in parts[:6])
    fraction = float("0." + (parts[6] or "0")) if len(parts) > 6 else 0.0
    try:
        return (
            datetime(year, month, day, hour, minute, second) - datetime(1970, 1, 1)
        ).total_seconds() + fraction
    except ValueError:  # "2024-13-45" is no date, and 24:00:60 no time
        return None
