"""TCP port numbers as text: one port, a list of ranges, and arithmetic with them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _

# A port has 16 bits.
LAST = 65535
HCCL_WIDTH = 32  # HCCL uses this many ports from its base; releases before 8.2 used 16
# HCCL's default where HCCL_IF_BASE_PORT is not set (documents of HCCL).
HCCL_BASE = 60000
HCCL_BASES = (1024, 65520)  # what HCCL takes for a base
UNCOMMON = 10000  # from here on few ports belong to somebody by name

# First and last port of a range, both included.
Span = tuple[int, int]

_DIGITS = pattern(r"[0-9]+\Z")


def parse_port(text: str, first: int = 1, last: int = LAST) -> int:
    """One port in ASCII digits; ValueError, with a sentence for people, for anything else."""
    if not _DIGITS.match(text):
        raise ValueError(_("it is not a whole number in plain digits"))
    # Twelve digits are already out of range; int() of a million digits would take minutes.
    number = int(text[:12])
    if not first <= number <= last:
        raise ValueError(_("it is not between {first} and {last}", first=first, last=last))
    return number


def parse_base(text: str) -> Span:
    """HCCL_IF_BASE_PORT: the ports that HCCL takes from there."""
    base = parse_port(text, *HCCL_BASES)
    end = base + HCCL_WIDTH - 1
    if end > LAST:
        text = _("HCCL uses {count} ports from there, and the last one, {end}, is above {last}")
        raise ValueError(text.format(count=HCCL_WIDTH, end=end, last=LAST))
    return base, end


def parse_spans(text: str) -> tuple[Span, ...]:
    """`61000-61050`, `61000,61050-61100`, sorted; none for `auto`, where the system chooses.

    Blanks are left out, as HCCL does; ValueError with a sentence for people when it cannot be read.
    """
    if text == "auto":
        return ()
    spans = sorted(_span(part) for part in text.replace(" ", "").split(","))
    for before, after in zip(spans, spans[1:]):
        if before[1] >= after[0]:
            raise ValueError(_("{one} and {other} overlap", one=spell([before]), other=spell([after])))
    return tuple(spans)


def _span(part: str) -> Span:
    low, dash, high = part.partition("-")
    first = parse_port(low)
    last = parse_port(high) if dash else first
    if first > last:
        raise ValueError(_("the range {part} ends before it begins", part=part))
    return first, last


def parse_kernel_list(text: Optional[str]) -> tuple[Span, ...]:
    """A list of ports as the kernel prints it in ip_local_reserved_ports; empty when there is none."""
    try:
        return tuple(_span(part) for part in (text or "").strip().split(",") if part)
    except ValueError:
        return ()


def parse_kernel_range(text: Optional[str]) -> Optional[Span]:
    """ip_local_port_range: where the kernel takes ports for outgoing connections from."""
    try:
        return _span("-".join((text or "").split()))
    except ValueError:
        return None


def width(spans: Iterable[Span]) -> int:
    """The number of ports in the ranges."""
    return sum(last - first + 1 for first, last in spans)


def mask(spans: Iterable[Span]) -> bytearray:
    """One byte for each port, 1 where a range has it: `mask(spans)[port]`; quick for any list."""
    marks = bytearray(LAST + 1)
    for first, last in spans:
        marks[first : last + 1] = bytes([1]) * (last - first + 1)
    return marks


def overlap(spans: Iterable[Span], other_spans: Iterable[Span]) -> tuple[Span, ...]:
    """The ports that two lists of ranges have in common."""
    return subtract(spans, subtract([(0, LAST)], other_spans))


def subtract(spans: Iterable[Span], holes: Iterable[Span]) -> tuple[Span, ...]:
    """The ranges without the ports of `holes`."""
    marks = mask(spans)
    for first, last in holes:
        marks[first : last + 1] = bytes(last - first + 1)
    return _marked(marks)


def runs(ports: Iterable[int]) -> tuple[Span, ...]:
    """Join single ports to ranges."""
    return _marked(mask((port, port) for port in ports))


def _marked(marks: bytearray) -> tuple[Span, ...]:
    """The ranges of a mask; 60,000 ports are looked at by the C library, not one by one."""
    # A slice assignment beyond the last port has made the array longer.
    del marks[LAST + 1 :]
    spans = []
    first = marks.find(1)
    while first != -1:
        end = marks.find(0, first)
        end = len(marks) if end == -1 else end
        spans.append((first, end - 1))
        first = marks.find(1, end)
    return tuple(spans)


def spell(spans: Iterable[Span]) -> str:
    """Write ranges as people and HCCL do: `60000-60007,60020`."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def stretch(count: int, taken: Iterable[Span], avoid: Iterable[Span], lowest: int) -> Optional[Span]:
    """Find `count` free ports in a row; None where there are none.

    `taken` is never used; `avoid` only where nothing else is free. The search begins at `lowest`, then at
    UNCOMMON.
    """
    taken_spans = list(taken)
    # First outside of the ports to avoid, then anywhere that is free.
    for blocked in (mask([*taken_spans, *avoid]), mask(taken_spans)):
        for begin in (lowest, UNCOMMON):
            first = blocked.find(bytes(count), begin)
            if first != -1:
                return first, first + count - 1
    return None
