"""Reads the files that options and arguments name: of a size at most, within a time, and never as root what
another user's link leads to."""

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
SILENCE = 300.0  # seconds that a pipe may say nothing: `ssh node npudoctor snapshot` takes its time
_PIECE = 1 << 20


def read_named(option: str, path: str, most: int) -> bytes:
    """What a file holds, or a pipe that we were given: "-", /dev/fd/N. UsageError where it cannot be read."""
    from npudoctor.core.forked import Late, ask
    from npudoctor.explain.reading.opening import Unreadable

    number, seconds = _descriptor(path, option), READING
    try:
        if number is not None:
            seconds = SILENCE
            content = _of_pipe(number, most)
        else:
            file = absolute_path(path, option)
            content = ask(lambda: _of_file(file, most), READING)
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
    except (OSError, Unreadable) as error:
        reason = strerror(error.errno) if isinstance(error, OSError) else str(error)
        raise UsageError(f"{option}: {path}: {reason}") from error
    if len(content) > most:
        raise UsageError(
            _("{option}: {path} is larger than {most} bytes", option=option, path=path, most=most)
        )
    return content


def _descriptor(path: str, option: str) -> Optional[int]:
    if path == "-":
        return 0
    if not path.startswith(DESCRIPTORS):
        return None
    from npudoctor.cli.terminal.destinations import own_descriptor

    number = own_descriptor(path, option)
    if number is None:
        raise UsageError(_("{option}: {path} is not an open descriptor", option=option, path=path))
    return number


def _of_file(path: str, most: int) -> bytes:
    """In a child: its file system may never answer."""
    from npudoctor.explain.reading.opening import Opener

    kind = os.stat(path).st_mode
    if not stat.S_ISREG(kind):
        raise IsADirectoryError
    with open(Opener().open(path), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise IsADirectoryError
        return file.read(most + 1)


def _of_pipe(number: int, most: int) -> bytes:
    """TimeoutError where it says nothing for too long; one byte more than `most` where it does not end."""
    os.read(number, 0)  # OSError for what is only written to: nothing would ever come
    parts: list[bytes] = []
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
