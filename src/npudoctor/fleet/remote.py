"""Builds the command that runs on a node, and extracts its answer from whatever else the login prints.

The command runs under `sh` between two lines with a random mark, so that banners, shell profiles and
warnings around it do no harm.
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Optional

from npudoctor.core.messages import _
from npudoctor.core.redact.redact import redact
from npudoctor.fixing.steps.shell import quote
from npudoctor.fleet.request import Request

LONGEST = 32 << 20  # bytes of one answer; a real one has about 60 KB
NOT_THERE = (126, 127)  # the exit codes of POSIX sh: 127 not found, 126 found but cannot be executed
_LINES, _LENGTH = 3, 300  # how many lines of other output are kept as the reason, and characters of each

# One line each: the login shell may be csh or fish, which must pass it on to sh unchanged. When the path does
# not exist on the node, the program is looked up by its name.
_INSTALLED = 'first=$1; shift; [ -x "$first" ] || first=${first##*/}; '
# The program comes by standard input, into a directory of mode 700 that is removed when sh ends. Free space
# is tested first by writing zeros: standard input can be read only once.
_CARRIED = (
    "size=$1; shift; umask 077; first=; "
    "for python in python3 python3.13 python3.12 python3.11 python3.10 python3.9; do "
    '"$python" -I -S -c "import sys; sys.exit(sys.version_info < (3, 9))" </dev/null >/dev/null 2>&1 '
    "&& first=$python && break; done; "
    "dir=; trap 'rm -rf \"$dir\"' 0; trap 'exit 143' 1 2 15; "
    'for place in "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm; do '
    'dir=$(mktemp -d "$place/npudoctor.XXXXXXXX" 2>/dev/null) || continue; '
    'head -c "$size" /dev/zero >"$dir/npudoctor.pyz" 2>/dev/null && break; '
    'rm -rf "$dir"; dir=; done; '
    '[ -n "$first" ] || { echo "there is no Python 3.9 or newer" >&2; first=/nonexistent; }; '
    'if [ -n "$dir" ]; then head -c "$size" >"$dir/npudoctor.pyz"; else '
    'echo "there is no folder with room for npudoctor.pyz" >&2; first=/nonexistent; fi; '
    'set -- -I -S "$dir/npudoctor.pyz" "$@"; '
)
_BEGIN = 'echo; echo "$mark begin $(date +%s)"; '
_TALKING = '"$first" "$@"; status=$?; '
# The job runs in the background, so that sh can end it when the connection does. Its standard input is empty:
# descriptor 3 keeps the connection, which _WATCH reads.
_ALONE = 'exec 3<&0; "$first" "$@" </dev/null 3<&- & job=$!; '
# cat sees the end of the connection also when the caller was killed; the job must not outlive it.
_WATCH = "{ cat <&3; kill $job; } >/dev/null 2>&1 & watch=$!; "
_WAIT = "wait $job; status=$?; "
_END = 'echo; echo "$mark end $status"; '
# The job has ended: its pid, which the watcher would kill, may belong to another process soon.
_UNWATCH = "kill $watch 2>/dev/null; "


def new_mark() -> str:
    """A random mark for one run, which no banner can contain by chance."""
    return f"npudoctor-{os.urandom(8).hex()}"


def shell_script(*, talking: bool = False, carried: bool = False) -> str:
    """The script for `sh -c`; its arguments are the mark, the size of a carried file if any, the command.

    It ends when its standard input does. `talking`: the command reads its standard input itself; `carried`:
    the program comes by standard input.
    """
    job = (_TALKING,) if talking else (_ALONE, _WATCH, _WAIT)
    program = _CARRIED if carried else _INSTALLED
    ending = () if talking else (_UNWATCH,)
    return "".join(("mark=$1; shift; ", program, _BEGIN, *job, _END, *ending, "exit 0"))


def command_words(request: Request, mark: str, *, talking: bool, before: str = "") -> tuple[str, ...]:
    """The words of the command that runs the request on a node, framed by the mark. `before`: sh to run
    first."""
    carried = bool(request.carried)
    size = (str(len(request.carried)),) if carried else ()
    text = before + shell_script(talking=talking, carried=carried)
    return ("/bin/sh", "-c", text, "sh", mark, *size, *request.command)


def remote_line(request: Request, mark: str, *, talking: bool) -> str:
    """The command of `command_words` as one quoted line for a login shell."""
    return " ".join(map(quote, command_words(request, mark, talking=talking)))


class AnswerFrame:
    """Extracts the answer of one node from its output: the lines between the two marks."""

    def __init__(self, mark: str) -> None:
        self._begin, self._end = f"{mark} begin".encode(), f"{mark} end ".encode()
        self._answer: Optional[list[bytes]] = None
        self._size = 0
        self._noise: deque[bytes] = deque(maxlen=_LINES)
        self._heard_at = 0.0  # by our clock, seconds since the epoch
        self._node_time = b""  # by the node's clock, whole seconds since the epoch
        self.status: Optional[int] = None

    @property
    def has_ended(self) -> bool:
        """Whether the command ended, so that the answer is complete."""
        return self.status is not None

    @property
    def has_begun(self) -> bool:
        """Whether the login succeeded and the command was started."""
        return self._answer is not None

    def add(self, line: bytes) -> None:
        """Add one line of standard output."""
        if self._answer is None:
            if line.startswith(self._begin):
                self._answer, self._heard_at = [], time.time()
                self._node_time = line[len(self._begin) :].strip()
            else:
                self.add_noise(line)
        elif line.startswith(self._end):
            status = line[len(self._end) :].strip()
            self.status = int(status) if status.isdigit() else 255
        elif not self.has_ended and self._size <= LONGEST:
            self._size += len(line) + 1
            self._answer.append(line)

    def clock_lead(self, asked_at: float) -> Optional[float]:
        """By how many seconds, at least, the node's clock is ahead of ours; negative: behind.

        The node read its clock between `asked_at` (our clock, seconds since the epoch) and the arrival of the
        line. A time between the two counts as 0.0. None when the node told no time.
        """
        # A `date` without %s prints the two characters; twelve digits are enough for 30,000 years.
        if not self._node_time.isdigit() or len(self._node_time) > 12:
            return None
        node_time = int(self._node_time)
        return max(0.0, node_time - self._heard_at) or min(0.0, node_time + 1 - asked_at)

    def add_noise(self, line: bytes) -> None:
        """Add a line of standard error, or one before the answer."""
        if line.strip():
            self._noise.append(line[:_LENGTH])

    def text(self) -> str:
        """The answer as printed, without the marks."""
        return b"\n".join(self._answer or ()).decode("utf-8", "replace")

    @property
    def too_long(self) -> bool:
        """Whether the answer is longer than any real report (LONGEST)."""
        return self._size > LONGEST

    def last_words(self) -> str:
        """The last lines of other output, with secrets redacted."""
        return redact(" / ".join(line.decode("utf-8", "replace").strip() for line in self._noise))


def why_no_answer(frame: AnswerFrame, code: Optional[int], timed_out: bool) -> str:
    """A sentence why a node gave no report, with the last lines that it printed. `code`: None when
    unknown."""
    words = frame.last_words()
    if timed_out:
        text = _("no answer in time")
    elif frame.too_long:
        text = _("the answer is too long")
    elif frame.status in NOT_THERE:
        text = _("npudoctor is missing or cannot be started (status {status})", status=frame.status)
    elif frame.has_ended:
        text = _("npudoctor gave no report (status {status})", status=frame.status)
    elif frame.has_begun:
        text = _("the connection was lost")
    else:
        text = _("cannot be reached (status {status})", status="?" if code is None else code)
    return f"{text}: {words}" if words else text
