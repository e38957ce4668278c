"""Writes a command's result and its messages. A result that could not be written must not look like
success."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Callable

from npudoctor.core.descriptors import open_null, wait_until_ready
from npudoctor.core.messages import _, strerror
from npudoctor.core.redact.redact import redact
from npudoctor.render.printable import printable

WRITING = 30.0  # seconds to write a file; the default deadline of a run
_result = 1  # the descriptor to which the result goes
_emitted = False  # whether a result was written completely
_closed = False  # whether standard output was closed when npudoctor started


class OutputLost(Exception):
    """The result could not be written; str() is the reason, one line for people."""


def fill_closed_streams() -> None:
    """Open /dev/null at closed standard descriptors, so that no other file gets one of their numbers."""
    global _closed
    # In this order: open() returns the lowest free number, which is then the closed one.
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            open_null()
            _closed = _closed or number == 1
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # Python sets None for a stream that was closed at its start
            setattr(sys, name, os.fdopen(open_null(), mode, encoding="utf-8", errors="backslashreplace"))


def redirect_stdout() -> None:
    """Make descriptor 1 standard error, so that nothing a check prints gets into the result.

    It is never undone: an abandoned check may print at any time.
    """
    global _result
    if _result == 1:
        _flush()
        _result = os.dup(1)
        # At the descriptor and not only sys.stdout: programs and C libraries that a check starts write there,
        # too.
        os.dup2(2, 1)


def emit(text: str, encoding: str = "utf-8", errors: str = "backslashreplace") -> None:
    """Write the result completely; raises OutputLost when that fails."""
    global _emitted
    _flush()
    if _closed:
        raise OutputLost(_("standard output is closed"))
    try:
        _write(_result, text.encode(encoding, errors))
        _emitted = True
    except OSError as error:
        raise OutputLost(strerror(error.errno)) from error


def was_emitted() -> bool:
    """Whether the result was written completely."""
    return _emitted


def terminal_encoding() -> str:
    """The encoding of text for people: that of standard output."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def is_terminal() -> bool:
    """Whether the result goes to a terminal."""
    return os.isatty(_result)


def result_descriptor() -> int:
    """The descriptor to which the result goes."""
    return _result


def shows_symbols(variables: Mapping[str, str]) -> bool:
    """Whether the terminal can show more than ASCII, by its locale.

    In the C locale Python reports UTF-8 and sets LC_CTYPE=C.UTF-8 itself (PEP 538), which does not count.
    """
    kind = variables.get("LC_CTYPE", "")
    locale = variables.get("LC_ALL") or (kind if kind != "C.UTF-8" else "") or variables.get("LANG", "")
    return all("utf8" in name.lower().replace("-", "") for name in (locale, terminal_encoding()))


def complain(line: str) -> None:
    """Print one line on standard error; an error there is ignored, as it cannot be reported anywhere."""
    write_stderr(f"npudoctor: {printable(redact(line))}\n")


def write_stderr(text: str) -> None:
    """Write text on standard error, as far as possible; the status line is removed first."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    status_line = sys.modules.get("npudoctor.cli.terminal.status_line")
    if status_line is not None:
        status_line.LINE.clear()
    with contextlib.suppress(OSError):
        _write(2, text.encode(encoding, "backslashreplace"))


def save(path: str, text: str, errors: str = "backslashreplace", mode: int = 0o644) -> None:
    """Replace a file atomically, or write to a pipe or device; raises OutputLost when that fails.

    `mode`: the permissions of a new file.
    """
    from npudoctor.core import way

    content = text.encode("utf-8", errors)
    descriptor = path.rpartition("/proc/self/fd/")[2]
    try:
        if descriptor.isdigit():
            _write(int(descriptor), content)
        else:
            write_in_child(lambda: _save(path, content, mode), path)
    except OSError as error:
        raise OutputLost(f"{path}: {way.reason_of(error)}") from error


def write_in_child(work: Callable[[], None], path: str) -> None:
    """Run `work`, which writes to `path`, in a child: on a frozen file system or a dead mount it never
    returns.

    Raises the OSError of the work, and OutputLost when it does not end within WRITING seconds.
    """
    from npudoctor.core.forked import Late, ask

    try:
        ask(work, WRITING)
    except Late as late:
        raise OutputLost(
            _("{path}: its file system accepts no data within {seconds:g} s", path=path, seconds=WRITING)
        ) from late


def _save(path: str, content: bytes, mode: int) -> None:
    from npudoctor.core import way

    stream = way.open_stream(path)
    if stream is None:
        way.write(path, content, mode)
        return
    try:
        _write(stream, content)
    finally:
        os.close(stream)


def discard_output() -> None:
    """Point standard output to /dev/null: Python flushes its buffer at exit, which would fail again."""
    with contextlib.suppress(OSError):  # no descriptor is left (ulimit -n)
        null = open_null()
        os.dup2(null, 1)
        os.close(null)


def _flush() -> None:
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError as error:
            raise OutputLost(strerror(error.errno)) from error


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # another process that shares the pipe made it non-blocking
            wait_until_ready(descriptor, to_write=True)
