"""Whether a signature is found at a line: its patterns there, and what must or must not be near."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Optional

from npudoctor.core.lazy import pattern
from npudoctor.explain.signatures.own_modules import is_frame_of_package, is_module_of_job
from npudoctor.explain.signatures.quoted import is_quotation, shows_source
from npudoctor.explain.signatures.signatures import Signature

UNIT_LINES = 12  # so many lines are one message at most,
LONGEST = 4096  # and so many characters

# What launchers, containers' logs and `ts` put before each line of a rank, which hides how far the line
# itself is indented.
_NAMES = (
    r"(?:\[(?:rank|default|stdout|stderr)?\d+\]:? ?|\((?:\w+ )?(?:pid|rank)=\d+[^)]*\) ?|\d{1,5}: "
    r"|\[\d+,\d+\]<std(?:out|err)>: ?|\{\"log\": ?\"|std(?:out|err) [FP] "
    r"|20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? )"
)
_PREFIX = pattern(f"^{_NAMES}+")
# Without the ^, which would only match where all of the data begins; in the bytes are colours too.
_COLOUR = r"(?:\x1b\[[\d;]{0,12}m)*"
_PREFIX_BYTES = pattern(rf"(?:{_COLOUR}{_NAMES}{_COLOUR} ?)+".encode())


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled once and kept: re's own memory is too small for all of them."""
    return re.compile(pattern)


def line_shape(data: bytes, start: int, following: int) -> tuple[bool, bool]:
    """Whether a line has a prefix; and whether it is a message of its own: neither it nor the following one
    is indented. This is asked of so many lines that it is asked of the bytes."""
    begin = _starts(data, start)
    return begin != start, begin >= 0 and _starts(data, following) >= 0


def _starts(data: bytes, at: int) -> int:
    """Where a line begins without its prefix; -1 when it is indented."""
    # Prefixes are short; a bounded match keeps a line of megabytes cheap.
    prefix = _PREFIX_BYTES.match(data, at, at + 100)
    begin = prefix.end() if prefix else at
    return -1 if data[begin : begin + 1].isspace() and data[begin : begin + 1] not in b"\r\n" else begin


def is_indented(line: bytes) -> bool:
    """Whether a line is indented, without what a launcher put before it."""
    return _starts(line, 0) < 0


def strip_prefix(line: str) -> str:
    """The line without what a launcher put before it."""
    return _PREFIX.sub("", line)


def find_head(lines: Sequence[str], index: int) -> Optional[int]:
    """The line that begins the message of a line: itself, or the one under which it is indented."""
    for first in range(index, max(-1, index - UNIT_LINES), -1):
        if not strip_prefix(lines[first])[:1].isspace():
            return first
    return None


def join_message(lines: Sequence[str], first: int) -> str:
    """The message that begins with a line, as one: it and the indented lines under it."""
    last = first + 1
    while last < len(lines) and last - first < UNIT_LINES and strip_prefix(lines[last])[:1].isspace():
        last += 1
    texts = list(map(strip_prefix, lines[first:last]))
    # The lines of a source that a traceback shows are no part of it.
    shown = (text.strip() for before, text in zip(("", *texts), texts) if not shows_source(before))
    return " ".join(shown)[:LONGEST]


def is_shown_source(lines: Sequence[str], index: int) -> bool:
    """Whether a line is one of a source that a traceback shows; the last line of a log may be all that
    there is of an exception."""
    last = not any(map(str.strip, lines[index + 1 : index + 3]))
    if last or not index or not strip_prefix(lines[index])[:1].isspace():
        return False
    return shows_source(strip_prefix(lines[index - 1]))


def is_about_sources(pattern: str) -> bool:
    """Whether a pattern is about indented lines, such as those of a source that a traceback shows."""
    return pattern.removeprefix("(?i)").startswith("^" + r"\s+")


def matches_at(patterns: Sequence[str], lines: Sequence[str], index: int) -> bool:
    """Whether one of the patterns matches the line, or the message that it is part of."""
    if is_quotation(strip_prefix(lines[index])):
        return False
    if is_shown_source(lines, index):
        patterns = [pattern for pattern in patterns if is_about_sources(pattern)]
    first = find_head(lines, index)
    texts = (
        lines[index],
        strip_prefix(lines[index]),
        *(() if first is None else (join_message(lines, first),)),
    )
    return any(compile_pattern(pattern).search(text) for text in texts for pattern in patterns)


def has_context(signature: Signature, lines: Sequence[str], index: int) -> bool:
    """Whether what must be near is there and what must not be is not; of those within the whole file,
    only the scan can tell."""
    if not signature.within:
        return True
    if signature.own and not is_module_of_job(lines[max(0, index - signature.within) : index + 1]):
        return False
    if signature.deepest and not is_frame_of_package(lines[max(0, index - UNIT_LINES) : index]):
        return False
    close = lines[max(0, index - signature.within) : index + signature.within + 1]
    if signature.near and not _matches_any(signature.near, close):
        return False
    return not (signature.without and _matches_any(signature.without, close))


def _matches_any(patterns: Sequence[str], lines: Sequence[str]) -> bool:
    return any(compile_pattern(pattern).search(line) for pattern in patterns for line in lines)


def find_signature_lines(signature: Signature, lines: Sequence[str]) -> Iterator[int]:
    """The lines of a whole log at which a signature is found; plain and slow, to try one by itself."""
    if not signature.within:
        if signature.near and not _matches_any(signature.near, lines):
            return
        if signature.without and _matches_any(signature.without, lines):
            return
    for index in range(len(lines)):
        if matches_at(signature.patterns, lines, index) and has_context(signature, lines, index):
            yield index


def find_first(signature: Signature, log: str) -> Optional[int]:
    """The first line (from 1) at which a signature is found in a log."""
    index = next(find_signature_lines(signature, log.splitlines()), None)
    return None if index is None else index + 1
