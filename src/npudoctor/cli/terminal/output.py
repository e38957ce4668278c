"""Where a command's result goes, and what it says beside it. A result that nobody got is no success."""

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

WRITING = 30.0  # seconds that a file may take; the deadline of a run, by default
_result = 1  # the descriptor of the result
_emitted = False  # whether a result was written, whole
_closed = False  # whether it was closed before we started


class Lost(Exception):
    """The result could not be written; the text says why."""


def fill_closed_streams() -> None:
    """Fill closed standard descriptors, so that no file we open becomes one of them."""
    global _closed
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            open_null()
            _closed = _closed or number == 1
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # Python's for one that was closed
            setattr(sys, name, os.fdopen(open_null(), mode, encoding="utf-8", errors="backslashreplace"))


def redirect_stdout() -> None:
    """From now on descriptor 1 is standard error: whatever a check prints, the result stays clean.

    It stays so until the process ends, since a check that was left behind may print at any time.
    """
    global _result
    if _result == 1:
        _flush()
        _result = os.dup(1)
        os.dup2(2, 1)


def emit(text: str, encoding: str = "utf-8", errors: str = "backslashreplace") -> None:
    """Write the result, whole; Lost when that fails."""
    global _emitted
    _flush()
    if _closed:
        raise Lost(_("standard output is closed"))
    try:
        _write(_result, text.encode(encoding, errors))
        _emitted = True
    except OSError as error:
        raise Lost(strerror(error.errno)) from error


def was_emitted() -> bool:
    """Whether the result was written, whole."""
    return _emitted


def terminal_encoding() -> str:
    """The encoding of text for people: that of their terminal."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def is_terminal() -> bool:
    """Whether a person looks at the result as it comes."""
    return os.isatty(_result)


def result_descriptor() -> int:
    """Where the result goes."""
    return _result


def shows_symbols(variables: Mapping[str, str]) -> bool:
    """Whether the terminal's locale has more than ASCII. In the C locale Python says UTF-8 all the same, and
    sets LC_CTYPE itself."""
    kind = variables.get("LC_CTYPE", "")
    locale = variables.get("LC_ALL") or (kind if kind != "C.UTF-8" else "") or variables.get("LANG", "")
    return all("utf8" in name.lower().replace("-", "") for name in (locale, terminal_encoding()))


def complain(line: str) -> None:
    """Say one line on standard error; when that is closed or full there is nobody left to tell."""
    write_stderr(f"npudoctor: {printable(redact(line))}\n")


def write_stderr(text: str) -> None:
    """Write a text for people on standard error, as far as that takes it."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    drawn = sys.modules.get("npudoctor.cli.terminal.status_line")
    if drawn is not None:
        drawn.LINE.clear()
    with contextlib.suppress(OSError):
        _write(2, text.encode(encoding, "backslashreplace"))


def save(path: str, text: str, errors: str = "backslashreplace", mode: int = 0o644) -> None:
    """Replace a file as a whole, or leave it as it was; write to a pipe or device. Lost when that fails.

    `mode`: of a file that is put there.
    """
    from npudoctor.core import way

    content = text.encode("utf-8", errors)
    own = path.rpartition("/proc/self/fd/")[2]
    try:
        if own.isdigit():
            _write(int(own), content)
        else:
            write_in_child(lambda: _save(path, content, mode), path)
    except OSError as error:
        raise Lost(f"{path}: {way.reason_of(error)}") from error


def write_in_child(work: Callable[[], None], path: str) -> None:
    """Write something in a child process: on a file system that is frozen, or whose server is gone, a write
    never returns. OSError from the work; Lost when it does not end."""
    from npudoctor.core.forked import Late, ask

    try:
        ask(work, WRITING)
    except Late as late:
        raise Lost(
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
    """Point the standard streams nowhere: what is still buffered must not fail again at the end."""
    with contextlib.suppress(OSError):  # no number is left for it: then nothing can be written either
        nothing = open_null()
        os.dup2(nothing, 1)
        os.close(nothing)


def _flush() -> None:
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError as error:
            raise Lost(strerror(error.errno)) from error


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # somebody made the pipe non-blocking
            wait_until_ready(descriptor, to_write=True)
