"""What runs on a node, and how its answer is cut out of whatever else the login prints.

The command runs below `sh`, between two lines with a word that nobody can guess: banners, profiles and
warnings before and behind it do no harm.
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
NOT_THERE = (126, 127)  # a shell's words for a program that is missing or cannot be started
_LINES, _LENGTH = 3, 300  # of what else is printed: kept to say why there is no answer

# One line each: csh and fish hand it to sh as it is. A path that is not there is looked for by its name.
_INSTALLED = 'first=$1; shift; [ -x "$first" ] || first=${first##*/}; '
# The file comes by standard input, into a folder that nobody else can enter, and is gone when sh ends. Where
# /tmp is full is found out before: standard input comes but once.
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
_ALONE = 'exec 3<&0; "$first" "$@" </dev/null 3<&- & job=$!; '
# It ends when the connection does, whatever became of us.
_WATCH = "{ cat <&3; kill $job; } >/dev/null 2>&1 & watch=$!; "
_WAIT = "wait $job; status=$?; "
_END = 'echo; echo "$mark end $status"; '
_UNWATCH = "kill $watch 2>/dev/null; "


def new_mark() -> str:
    """A word for one run that no banner can hold."""
    return f"npudoctor-{os.urandom(8).hex()}"


def script(*, talking: bool = False, carried: bool = False) -> str:
    """What `sh -c` runs; its arguments are the mark, the size of a carried file, and the command.

    It ends when its standard input does; `talking`: the command reads that itself.
    """
    job = (_TALKING,) if talking else (_ALONE, _WATCH, _WAIT)
    program = _CARRIED if carried else _INSTALLED
    ending = () if talking else (_UNWATCH,)
    return "".join(("mark=$1; shift; ", program, _BEGIN, *job, _END, *ending, "exit 0"))


def words(request: Request, mark: str, *, talking: bool, before: str = "") -> tuple[str, ...]:
    """The words of the command that runs the request on a node, framed by the mark. `before`: lines of sh."""
    carried = bool(request.carried)
    size = (str(len(request.carried)),) if carried else ()
    text = before + script(talking=talking, carried=carried)
    return ("/bin/sh", "-c", text, "sh", mark, *size, *request.command)


def remote_line(request: Request, mark: str, *, talking: bool) -> str:
    """The same as a line for a login shell."""
    return " ".join(map(quote, words(request, mark, talking=talking)))


class Frame:
    """Cuts the answer of one node out of its lines."""

    def __init__(self, mark: str) -> None:
        self._begin, self._end = f"{mark} begin".encode(), f"{mark} end ".encode()
        self._answer: Optional[list[bytes]] = None
        self._size = 0
        self._noise: deque[bytes] = deque(maxlen=_LINES)
        self._heard_at = 0.0  # of our clock, in seconds since the epoch
        self._node_time = b""  # of the node's clock, in whole ones
        self.status: Optional[int] = None

    @property
    def ended(self) -> bool:
        """Whether the command ended, and so all of the answer is here."""
        return self.status is not None

    @property
    def begun(self) -> bool:
        """Whether the login succeeded and the command was started."""
        return self._answer is not None

    def add(self, line: bytes) -> None:
        """One line of standard output."""
        if self._answer is None:
            if line.startswith(self._begin):
                self._answer, self._heard_at = [], time.time()
                self._node_time = line[len(self._begin) :].strip()
            else:
                self.noise(line)
        elif line.startswith(self._end):
            status = line[len(self._end) :].strip()
            self.status = int(status) if status.isdigit() else 255
        elif not self.ended and self._size <= LONGEST:
            self._size += len(line) + 1
            self._answer.append(line)

    def ahead(self, asked_at: float) -> Optional[float]:
        """How many seconds the node's clock is at least ahead of ours, below 0 behind.

        It told its time after we asked, at `asked_at` of our clock, and before we heard of it; so long as it
        lies between the two, nothing is known against it. None where it told no time.
        """
        if not self._node_time.isdigit() or len(self._node_time) > 12:
            return None
        node_time = int(self._node_time)
        return max(0.0, node_time - self._heard_at) or min(0.0, node_time + 1 - asked_at)

    def noise(self, line: bytes) -> None:
        """A line of standard error, or of what comes before the answer."""
        if line.strip():
            self._noise.append(line[:_LENGTH])

    def text(self) -> str:
        """The answer as it was printed."""
        return b"\n".join(self._answer or ()).decode("utf-8", "replace")

    @property
    def too_long(self) -> bool:
        """Whether the answer was longer than any real one."""
        return self._size > LONGEST

    def last_words(self) -> str:
        """What stood on its standard error last, without secrets."""
        return redact(" / ".join(line.decode("utf-8", "replace").strip() for line in self._noise))


def why_no_answer(frame: Frame, code: Optional[int], timed_out: bool) -> str:
    """Why a node gave no report, in a sentence that names what it said last."""
    words = frame.last_words()
    if timed_out:
        text = _("no answer in time")
    elif frame.too_long:
        text = _("the answer is too long")
    elif frame.status in NOT_THERE:
        text = _("npudoctor is missing or cannot be started (status {status})", status=frame.status)
    elif frame.ended:
        text = _("npudoctor gave no report (status {status})", status=frame.status)
    elif frame.begun:
        text = _("the connection was lost")
    else:
        text = _("cannot be reached (status {status})", status="?" if code is None else code)
    return f"{text}: {words}" if words else text
