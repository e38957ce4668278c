"""What `make run` does: one command on this terminal, its exit status said, and whether it made a report.

A crash of Python ends with 1 like a report of a machine that is not ready, but without a report: so its
standard output is looked at on its way. The command gets a terminal for it where we have one, as it writes
colour to nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

REPORTED = (0, 1, 2)  # ready, not ready, undetermined
CHUNK = 1 << 16


def main(argv: Sequence[str]) -> int:
    """Run it; 0 where it made a report, whatever that says."""
    if not os.isatty(1):
        ours, its = os.pipe()
    else:
        ours, its = os.openpty()
        _like(its, 1)
    with subprocess.Popen(argv, stdout=its) as process:
        os.close(its)
        written = _passed_on(ours)
    os.close(ours)
    name = os.path.basename(argv[0])
    print(f"{' '.join((name, *argv[1:]))}: exit status {process.returncode}", flush=True)
    return 0 if written and process.returncode in REPORTED else 1


def _like(terminal: int, other: int) -> None:
    """As wide as the other, and what is written to it is not changed: the other one does that."""
    import fcntl
    import termios

    size = fcntl.ioctl(other, termios.TIOCGWINSZ, b"\0" * 8)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
    modes = termios.tcgetattr(terminal)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, modes)


def _passed_on(source: int) -> int:
    """Hand on what comes until nobody writes any more; how much that was."""
    count = 0
    with suppress(OSError):  # EIO is how a terminal says that it was closed
        while chunk := os.read(source, CHUNK):
            count += len(chunk)
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    return count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
