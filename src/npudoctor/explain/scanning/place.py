"""One line of a log with what is around it, read only when somebody asks: most lines are soon done with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Optional

from npudoctor.core.lazy import pattern
from npudoctor.explain.scanning import levels, moments, ranks
from npudoctor.explain.scanning.evidence import LogLine
from npudoctor.explain.scanning.window import Window, decode
from npudoctor.explain.signatures.quoted import is_quotation
from npudoctor.explain.signatures.recognise import (
    UNIT_LINES,
    compile_pattern,
    find_head,
    has_context,
    is_about_sources,
    is_shown_source,
    join_message,
    line_shape,
    strip_prefix,
)
from npudoctor.explain.signatures.signatures import Signature

SHOWN = 2000  # characters of a line that are kept
_LOGGING = 16 << 10  # bytes of what `logging` writes about a message that it cannot format
_TRACEBACK = 60  # lines of a traceback at most
# Not "try again later", which is advice.
_RETRIED = pattern(
    r"(?i)\b(?:will ?retry|retrying|retry (?:in|after|\d|attempt)|retry[=:#]|trying again"
    r"|fall\w* ?back (?:to|on))|重试中|正在重试"
)
_DEEP = 32 << 10  # bytes of one before its last line, in which is looked for its first frame
# Where a process begins: a script, a module, a child of multiprocessing.
_OUTERMOST = pattern(
    r'[ \t]*File "[^"]{1,500}", line \d+, in <module>'
    r'|[ \t]*File "[^"]{0,500}\bmultiprocessing/process\.py", line \d+, in _bootstrap\b'
    r'|[ \t]*File "<frozen runpy>", line \d+, in '
    r'|[ \t]*File "[^"]{0,500}/runpy\.py", line \d+, in _run_module'
)
_EXCEPTION = pattern(r"(?:[\w.]*\.)?\w*(?:Error|Exception|Interrupt)(?:: |$)")
_IGNORED = (
    "Exception ignored in",
    "Exception ignored on calling",
    "Error in atexit._run_exitfuncs",
    "--- Logging error ---",
)
# What threads and tasks write whose other end, or whose interpreter, is already gone.
_OF_THREAD = ("Exception in thread ", "Exception in callback ", "Task exception was never retrieved")
_GONE = pattern(
    r"(?:[\w.]*\.)?(?:EOFError|BrokenPipeError|Connection\w*Error|CancelledError|Empty)\b"
    r"|OSError: (?:handle is closed|\[Errno (?:9|32)\])"
    r"|RuntimeError: (?:cannot schedule new futures|can't \w+ new thread at|Event loop is closed)"
)
_HANDLED = "During handling of the above exception, another exception occurred"
_CAUSE = "The above exception was the direct cause of the following exception"
_CHAINED = (_HANDLED, _CAUSE)


class WindowLine:
    """A line of a window, from `start` to `end`; `number` is its number in the file."""

    def __init__(self, window: Window, start: int, end: int, number: int) -> None:
        self._window = window
        self._outer = window.bounds(start)
        self.offset = window.base + start
        self.number = number
        self.text = decode(window.data[start:end])

    def match_pattern(self, pattern: str) -> Optional[WindowLine]:
        """The line, when the pattern matches it; the head of its message, when it matches that."""
        search = compile_pattern(pattern).search
        prefixed, alone = self._shape
        if search(self.text) or (prefixed and search(self._bare)):
            # A word in the source of a program means nothing, but to a pattern that is about sources.
            return self if alone or is_about_sources(pattern) or not self.is_source else None
        if alone:
            return None
        message = self._message
        if message is None or not search(message[1]):
            return None
        # Whichever line of a message led here: the one that says it alone is meant, else the head for all
        # of it.
        for lines in self._member_distances(message[0]):
            member = self._line_at(lines)
            if search(member.text) or search(strip_prefix(member.text)):
                return member if is_about_sources(pattern) or not member.is_source else None
        # The line that begins it, with the text of all of it.
        place = self._line_at(-message[0])
        place.text = message[1]
        return place

    def _member_distances(self, before: int) -> Iterator[int]:
        """How far from this line the other lines of its message are, whose head is so many before it."""
        above, below = self._neighbours
        lines = [*above, self.text, *below]
        first = len(above) - before
        last = first + 1
        while last < len(lines) and last - first < UNIT_LINES and strip_prefix(lines[last])[:1].isspace():
            last += 1
        return (number - len(above) for number in range(first, last) if number != len(above))

    def has_context(self, signature: Signature) -> bool:
        """Whether what must be near is, and what must not be is not."""
        if not signature.within or not (
            signature.near or signature.without or signature.own or signature.deepest
        ):
            return True
        before = self._window.before(self._outer[0], signature.within)
        after = self._window.after(self._outer[1], signature.within)
        return has_context(signature, [*before, self.text, *after], len(before))

    def to_log_line(self, path_rank: Optional[int], year: int) -> LogLine:
        """All that is worth to be kept of it."""
        before, after = self._neighbours
        lines = [*before, self.text, *after]
        ending = next((line for line in after[:9] if line.startswith((_HANDLED, _CAUSE, "Traceback"))), "")
        return LogLine(
            self.number,
            self.offset,
            self.text.strip()[:SHOWN],
            self.rank(path_rank),
            moments.nearest_moment(lines, len(before), year),
            self.is_mild,
            ending.startswith(_HANDLED),
            ending.startswith(_CAUSE),
            self.is_teardown,
            self._is_uncaught,
            any(map(_RETRIED.search, (self.text, *after[:2]))),
        )

    def to_plain_log_line(self, path_rank: Optional[int]) -> LogLine:
        """What can be said of it without a look at the lines around."""
        text = self.text.strip()[:SHOWN]
        rank = self.rank(path_rank)
        return LogLine(
            self.number, self.offset, text, rank, is_mild=self.is_mild, is_teardown=self.is_teardown
        )

    def rank(self, path_rank: Optional[int]) -> Optional[int]:
        """The rank that the line is from: as it says, else whose file it is."""
        return path_rank if self._rank is None else self._rank

    @cached_property
    def _rank(self) -> Optional[int]:
        return ranks.rank_of_line(self.text)

    @cached_property
    def is_mild(self) -> bool:
        """Whether the line calls itself a warning or information, or ends a traceback that was ignored."""
        text = self._bare
        if text.startswith("Traceback ("):
            return any(
                strip_prefix(line).startswith(_IGNORED) for line in self._window.before(self._outer[0], 1)
            )
        return levels.is_mild(self.text) or any(line.startswith(_IGNORED) for line in self._introduction)

    @property
    def is_teardown(self) -> bool:
        """Whether the line ends a traceback of a thread that was left when all else was gone."""
        other_end_is_gone = bool(_GONE.match(self._bare))
        return other_end_is_gone and any(line.startswith(_OF_THREAD) for line in self._introduction)

    @property
    def _follows_source(self) -> bool:
        """Whether the line before this one is indented, as the last of a traceback is."""
        before = self._window.before(self._outer[0], 1)
        return bool(before) and strip_prefix(before[0])[:1].isspace()

    @cached_property
    def _introduction(self) -> Sequence[str]:
        """What is said before the traceback that ends here, or before the one of which it is the
        consequence: that Python ignored the exception, as in `__del__`, or that it was of a thread."""
        if not _EXCEPTION.match(self._bare) or not self._follows_source:
            return ()
        lines = [strip_prefix(line) for line in self._window.before(self._outer[0], _TRACEBACK)]
        for number in range(len(lines) - 1, 0, -1):
            if lines[number].startswith("Traceback ("):
                above = [line for line in lines[max(0, number - 3) : number] if line.strip()]
                if not (above and above[-1].startswith(_CHAINED)):
                    return above[-2:]
        return ()

    @property
    def _is_uncaught(self) -> bool:
        """Whether the traceback that ends here begins where the process does: one that somebody caught begins
        with the function that caught it. Of one that is cut off the head is asked."""
        if self._bare.startswith("Traceback ("):
            lines = [strip_prefix(line) for line in self.lines_after(_TRACEBACK)]
            end = next((line for line in lines if line.strip() and not line[:1].isspace()), "")
            return bool(lines and _OUTERMOST.match(lines[0]) and not _EXCEPTION.match(end))
        if not _EXCEPTION.match(self._bare) or not self._follows_source:
            return False
        # Asked of the bytes: a log may have thousands of ranks, and a traceback a hundred lines.
        start = self._outer[0]
        before = self._window.data[max(0, start - _DEEP) : start]
        begin = before.rfind(b"Traceback (")
        first = before[begin:].split(b"\n", 2)[1:2] if begin >= 0 else []
        return bool(first and _OUTERMOST.match(strip_prefix(decode(first[0]))))

    @cached_property
    def is_quotation(self) -> bool:
        """Whether the line is no message of the job."""
        if is_quotation(strip_prefix(self.text)):
            return True
        # What `logging` writes when it cannot format a message, and goes on: a traceback, a stack, the
        # message and its arguments.
        start = self._outer[0]
        before = self._window.data[max(0, start - _LOGGING) : start]
        _more, title, since = before.rpartition(b"--- Logging error ---")
        chained = since.count(b"Traceback (most recent") <= 1 + since.count(b"the above exception")
        of_logging = bool(title) and b"\nArguments: " not in since and chained
        return of_logging or self._window.in_report(start)

    @cached_property
    def is_source(self) -> bool:
        """Whether the line is one of a source that a traceback shows."""
        before, after = self._neighbours
        return is_shown_source([*before, self.text, *after], len(before))

    def lines_after(self, count: int) -> list[str]:
        """The lines after it."""
        return self._window.after(self._outer[1], count)

    @cached_property
    def _neighbours(self) -> tuple[list[str], list[str]]:
        start, end = self._outer
        return self._window.before(start, UNIT_LINES), self._window.after(end, UNIT_LINES)

    @cached_property
    def _bare(self) -> str:
        return strip_prefix(self.text)

    @cached_property
    def _shape(self) -> tuple[bool, bool]:
        """See `shape`. Apart, as it is asked once for all patterns of the line."""
        start, end = self._outer
        return line_shape(self._window.data, start, end + 1)

    @cached_property
    def _message(self) -> Optional[tuple[int, str]]:
        """How many lines before this one its message begins, and all of it; None when that cannot be told.
        Put together once for all patterns of the line."""
        before, after = self._neighbours
        lines = [*before, self.text, *after]
        first = find_head(lines, len(before))
        return None if first is None else (len(before) - first, join_message(lines, first))

    def _line_at(self, lines: int) -> WindowLine:
        """The line that is so many after this one, or before it."""
        data, start = self._window.data, self._outer[0]
        for _line in range(-lines):
            start = data.rfind(b"\n", 0, max(0, start - 1)) + 1
        for _line in range(lines):
            start = data.find(b"\n", start) + 1
        return WindowLine(self._window, start, self._window.bounds(start)[1], self.number + lines)
