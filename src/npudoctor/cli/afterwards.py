"""Explains a failed job for `run`: reads the logs that were written since the job started."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Optional

from npudoctor.core.frozen import dataclass

if TYPE_CHECKING:
    from npudoctor.explain.reading.opening import Identity

SECONDS = 30.0  # the longest delay of the job's end
READING = 20.0  # seconds of these for reading the logs
# The exit codes after these signals: who ended the job, a person or the batch system, knows the reason.
ENDED_BY_SIGNAL = frozenset(128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))
INTERRUPTING_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
STATUSES_OF_A_SHELL = (126, 127)  # no command was started, which was reported already


@dataclass(frozen=True)
class JobStart:
    """The start of a job. `moment`: seconds since the epoch, as file times are; `outputs`: the paths of the
    files to which its output goes; `begins`: by device and inode, the offset at which its output begins."""

    moment: float
    outputs: tuple[str, ...]
    begins: Mapping[Identity, int]

    @classmethod
    def capture(cls) -> JobStart:
        """The present moment; call it before the job starts, while standard output is still the caller's."""
        # 0.1 s: the kernel stamps files with the time of the last timer tick, which is a little behind.
        outputs = _find_outputs()
        paths = tuple(dict.fromkeys(path for path, _file, _begin in outputs))
        # For a file that is open twice the first offset counts, which is the last one in reversed order.
        begins = {file: begin for _path, file, begin in reversed(outputs)}
        return cls(time.time() - 0.1, paths, begins)


def explain_failure(status: int, beginning: JobStart, variables: Mapping[str, str]) -> Optional[str]:
    """The explanation as text; None when the job did not fail, wrote no log, or no log tells the cause."""
    if status == 0 or status in ENDED_BY_SIGNAL or status in STATUSES_OF_A_SHELL:
        return None
    from npudoctor.launch.child import run_in_child

    def work() -> dict[str, Any]:
        _lead_process_group()
        return {"text": _explain_logs(beginning, variables)}

    try:
        with _interruptible():
            answer = run_in_child(work, SECONDS) or {}
    except (_ExplanationInterrupted, OSError):
        return None
    text = answer.get("text")
    return text if isinstance(text, str) and text else None


class _ExplanationInterrupted(Exception):
    """A signal ended the wait for the explanation."""


@contextmanager
def _interruptible() -> Iterator[None]:
    """Unblock the signals that were blocked while the job ran: each raises _ExplanationInterrupted instead of
    ending us."""

    def stop(*_told: object) -> None:
        raise _ExplanationInterrupted

    for number in INTERRUPTING_SIGNALS:
        signal.signal(number, stop)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTING_SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTING_SIGNALS)


def _lead_process_group() -> None:
    """In the child: lead a process group, and kill all of it on a signal or when the time is over."""
    os.setpgid(0, 0)
    for number in (*INTERRUPTING_SIGNALS, signal.SIGALRM):
        signal.signal(number, lambda *_told: os.killpg(0, signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # The parent kills it at the same time; the alarm counts when the parent was killed itself.
    signal.alarm(int(SECONDS))


def _explain_logs(beginning: JobStart, variables: Mapping[str, str]) -> str:
    """The explanation as text; "" when no log shows a known failure, nor tells where to look."""
    from npudoctor.cli.diagnosis import explain_words
    from npudoctor.cli.request import ExplainRequest
    from npudoctor.explain.answer import add_remedies
    from npudoctor.explain.reading.newest import LOOSE, find_newest_logs
    from npudoctor.render.explain_text import explain_text

    started = time.monotonic()
    # Files of the kind LOOSE may have been written by another job.
    places = (place.path for place in find_newest_logs(variables).places if place.kind != LOOSE)
    paths = (*beginning.outputs, *places)
    if not paths:
        return ""
    request = ExplainRequest(paths, variables, started, READING, beginning.moment, beginning.begins)
    explanation = explain_words(request)
    return (
        explain_text(add_remedies(explanation, None))
        if explanation.diagnoses and explanation.exit_code == 0
        else ""
    )


def _find_outputs() -> tuple[tuple[str, Identity, int], ...]:
    """Path, identity and offset of the regular files at standard output and error; () if they do not
    answer."""
    descriptors = [
        number for number in (1, 2) if not _descriptor_path(number).startswith(("/dev/", "pipe:", "socket:"))
    ]
    if not descriptors:
        return ()
    from npudoctor.core.forked import Late, ask

    try:
        return ask(
            lambda: tuple(
                sorted(file for descriptor in descriptors for file in _find_regular_file(descriptor))
            ),
            seconds=1.0,
        )
    except (Late, OSError):
        return ()


def _descriptor_path(descriptor: int) -> str:
    """The path of an open file. Reads kernel memory only, and so cannot hang on a dead mount."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return "/dev/null"


def _find_regular_file(descriptor: int) -> tuple[tuple[str, Identity, int], ...]:
    """The path of an open regular file, its device and inode, and the offset of the next write; () for any
    other file, and for one that was renamed or removed."""
    path = _descriptor_path(descriptor)
    try:
        file = os.fstat(descriptor)
        if not (stat.S_ISREG(file.st_mode) and os.path.samestat(os.stat(path), file)):
            return ()
        appended = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
        # With O_APPEND the next write goes to the end, wherever the offset of the descriptor is.
        begin = file.st_size if appended else os.lseek(descriptor, 0, os.SEEK_CUR)
        return ((path, (file.st_dev, file.st_ino), begin),)
    except OSError:
        return ()
