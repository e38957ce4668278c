"""A terminal of a given size, and what a command writes to it."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Optional

from tests.cli.command import heed_signals


def _take_over() -> None:
    """In the child: the terminal is its own, as a login gives it."""
    heed_signals()
    fcntl.ioctl(2, termios.TIOCSCTTY, 0)


class Terminal:
    """A command whose standard streams are a terminal; `out` replaces its standard output."""

    def __init__(
        self,
        argv: Sequence[str],
        variables: Mapping[str, str],
        columns: int = 80,
        *,
        cwd: Optional[str] = None,
        out: Optional[int] = None,
    ) -> None:
        self._ours, its = os.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.said = ""
        self.process = subprocess.Popen(
            argv, env=dict(variables), cwd=cwd, stdin=its, stdout=its if out is None else out, stderr=its,
            start_new_session=True, preexec_fn=_take_over,
        )  # fmt: skip
        os.close(its)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def type(self, text: str) -> None:
        """What a person types; Ctrl-C is \\x03."""
        os.write(self._ours, text.encode())

    def until(self, word: str, seconds: float = 30) -> str:
        """Read until the word is there; all that was said so far."""
        self._read(seconds, word)
        assert word in self.said, self.said
        return self.said

    def whole(self, seconds: float = 60) -> str:
        """Read to the end; lines end as in a file."""
        self._read(seconds, None)
        self.process.wait(seconds)
        return self.said.replace("\r\n", "\n")

    def _read(self, seconds: float, word: Optional[str]) -> None:
        end = time.monotonic() + seconds
        while word is None or word not in self.said:
            left = end - time.monotonic()
            assert left > 0, self.said
            if not select.select([self._ours], [], [], left)[0]:
                continue
            try:
                self.said += os.read(self._ours, 1 << 16).decode("utf-8", "replace")
            except OSError:  # nobody has it open any more
                return
