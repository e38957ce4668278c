"""What ended a Python program: its exceptions as a probe told them, or as its output says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from npudoctor.core.frozen import dataclass, field, replace
from npudoctor.core.lazy import pattern

_FRAME = pattern(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,? in (?P<function>.+))?\s*\Z')
# The sentences of Python's own traceback module; they are not translated.
_HEAD = "Traceback (most recent call last):"
# The last line of a traceback: type, perhaps with its module, and message.
_ERROR = pattern(r"(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?\Z")
# Between two exceptions; the later one is the outer one.
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
# Of faulthandler, whose stack has its deepest frame first. Of several threads the current one counts.
_DUMP = pattern(r"(?:Current t|T)hread 0x[0-9a-f]+ .*\(most recent call first\):\Z")
_CURRENT = pattern(r"Current thread 0x[0-9a-f]+ ")


@dataclass(frozen=True)
class Frame:
    """Where in the code; `function` is "" where it is not told."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True)
class Raised:
    """One exception. `how` it is tied to the one before it in the list: cause, context, "" for the last one.

    `bases`: the names of its type and of those above it. `path`: the file that it is about, of an ImportError
    or an OSError. `unread`: the file of the module that could not be read.
    """

    type: str
    message: str
    how: str = ""
    bases: tuple[str, ...] = ()
    name: Optional[str] = None
    path: Optional[str] = None
    line: Optional[int] = None
    unread: Optional[str] = None
    frames: tuple[Frame, ...] = field(default=())

    @property
    def text(self) -> str:
        """As Python writes it: the type, and what it says."""
        return f"{self.type}: {self.message}" if self.message else self.type

    def is_a(self, *names: str) -> bool:
        """Return whether its type is one of these, or derives from one."""
        return bool({*names} & {*self.bases, self.type.rpartition(".")[2]})


def parse_chain(links: object) -> tuple[Raised, ...]:
    """The exceptions that a probe wrote, the last one first; what makes no sense is left out."""
    return tuple(
        _parse_link(link)
        for link in (links if isinstance(links, list) else ())
        if isinstance(link, dict) and isinstance(link.get("type"), str)
    )


def _parse_link(words: Mapping[str, Any]) -> Raised:
    # The job's own code could have written the file: nothing is taken for granted.
    def text(key: str) -> Optional[str]:
        return words[key] if isinstance(words.get(key), str) and words[key] else None

    line = words.get("line")
    return Raised(
        words["type"],
        (text("message") or "").strip(),
        text("how") or "",
        tuple(name for name in words.get("bases") or () if isinstance(name, str)),
        text("name"),
        text("path"),
        line if isinstance(line, int) else None,
        text("unread"),
        tuple(
            Frame(frame[0], frame[1], frame[2])
            for frame in words.get("frames") or ()
            if isinstance(frame, list) and [type(part) for part in frame] == [str, int, str]
        ),
    )


def parse_traceback(output: str) -> tuple[Raised, ...]:
    """The exceptions of the last traceback of a text, the last one first; () where there is none."""
    lines = output.splitlines()
    starts = [number for number, line in enumerate(lines) if line.strip() == _HEAD]
    chain: list[Raised] = []
    for start, end in zip(starts, [*starts[1:], len(lines)]):
        block = lines[start + 1 : end]
        raised = _parse_block(block)
        if raised is None:
            continue
        # Between two tracebacks of a chain stand an empty line, the sentence, and another empty line.
        before = {line.strip() for line in lines[max(0, start - 3) : start]} & {_CAUSE, _CONTEXT}
        if chain and before:
            chain[0] = replace(chain[0], how="cause" if _CAUSE in before else "context")
            # Python prints the cause first; we have the outermost exception first.
            chain.insert(0, raised)
        else:
            chain = [raised]
    return tuple(chain)


def _parse_block(lines: Sequence[str]) -> Optional[Raised]:
    """One exception with its frames; None where no line names an exception."""
    frames = []
    for line in lines:
        match = _FRAME.match(line)
        if match:
            frames.append(Frame(match["file"], int(match["line"]), match["function"] or ""))
            continue
        error = _ERROR.match(line) if line[:1].strip() else None
        if error:
            # Of these the last "File" line is no frame: it names where the source is wrong.
            syntax = error["type"] in ("SyntaxError", "IndentationError", "TabError") and bool(frames)
            last = frames.pop() if syntax else None
            return Raised(
                error["type"],
                (error["message"] or "").strip(),
                path=last.file if last else None,
                line=last.line if last else None,
                frames=tuple(frames),
            )
    return None


def stack_of(output: str) -> tuple[Frame, ...]:
    """The frames that faulthandler printed, outermost first; () where it printed none."""
    lines = output.splitlines()
    heads = [number for number, line in enumerate(lines) if _DUMP.match(line)]
    current = [number for number in heads if _CURRENT.match(lines[number])] or heads
    if not current:
        return ()
    frames = []
    for line in lines[current[-1] + 1 :]:
        match = _FRAME.match(line)
        if match is None:
            break
        frames.append(Frame(match["file"], int(match["line"]), match["function"] or ""))
    return tuple(reversed(frames))
