"""Reads the files that options and arguments name: limited in size and time, and never, as root, through
another user's link."""

from __future__ import annotations

import os
import stat
import time
from typing import Optional

from npudoctor.cli.config import UsageError, absolute_path
from npudoctor.core.descriptors import wait_until_ready
from npudoctor.core.messages import _, strerror

DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
READING = 30.0  # seconds for one file
SILENCE = 300.0  # seconds without data in a pipe: `ssh node npudoctor snapshot` takes a while
_PIECE = 1 << 20  # bytes of one read


def read_named(option: str, path: str, most: int) -> bytes:
    """The content of a file, or of a pipe ("-", /dev/fd/N); raises UsageError when it cannot be read.

    `most`: its largest size in bytes.
    """
    from npudoctor.core.forked import Late, ask
    from npudoctor.explain.reading.opening import UnreadableLog

    number, seconds = _parse_descriptor(path, option), READING
    try:
        if number is not None:
            seconds = SILENCE
            content = _read_pipe(number, most)
        else:
            file = absolute_path(path, option)
            content = ask(lambda: _read_file(file, most), READING)
    except (Late, TimeoutError) as late:
        raise UsageError(
            _(
                "{option}: {path} cannot be read within {seconds:g} s",
                option=option,
                path=path,
                seconds=seconds,
            )
        ) from late
    except FileNotFoundError as error:
        raise UsageError(_("{option}: {path} does not exist", option=option, path=path)) from error
    except IsADirectoryError as error:
        raise UsageError(_("{option}: {path} is not a regular file", option=option, path=path)) from error
    except (OSError, UnreadableLog) as error:
        reason = strerror(error.errno) if isinstance(error, OSError) else str(error)
        raise UsageError(f"{option}: {path}: {reason}") from error
    if len(content) > most:
        raise UsageError(
            _("{option}: {path} is larger than {most} bytes", option=option, path=path, most=most)
        )
    return content


def _parse_descriptor(path: str, option: str) -> Optional[int]:
    if path == "-":
        return 0
    if not path.startswith(DESCRIPTORS):
        return None
    from npudoctor.cli.terminal.destinations import parse_own_descriptor

    number = parse_own_descriptor(path, option)
    if number is None:
        raise UsageError(_("{option}: {path} is not an open descriptor", option=option, path=path))
    return number


def _read_file(path: str, most: int) -> bytes:
    """In a child: read a file, which on a dead mount never returns. One byte more than `most` when larger."""
    from npudoctor.explain.reading.opening import Opener

    kind = os.stat(path).st_mode
    if not stat.S_ISREG(kind):
        raise IsADirectoryError
    with open(Opener().open(path), "rb") as file:
        # Once more on the open file: the path may have been exchanged since.
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise IsADirectoryError
        return file.read(most + 1)


def _read_pipe(number: int, most: int) -> bytes:
    """Read a pipe; one byte more than `most` when larger. Raises TimeoutError after SILENCE without data."""
    os.read(number, 0)  # raises OSError for a write-only descriptor, from which no data would ever come
    parts: list[bytes] = []
    # An hour in all, for a pipe that trickles: SILENCE starts again with each byte.
    size, until = 0, time.monotonic() + 12 * SILENCE
    while size <= most:
        if time.monotonic() > until or not wait_until_ready(number, SILENCE):
            raise TimeoutError
        part = os.read(number, min(_PIECE, most + 1 - size))
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)
