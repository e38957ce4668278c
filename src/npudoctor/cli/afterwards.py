"""What `run` prints when the job failed: the explanation of the logs written since it started."""

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

SECONDS = 30.0  # the longest that a job's end waits for it
READING = 20.0  # of them for the logs
# Whoever ended the job, a person or the batch system, knows why.
ENDED = frozenset(128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))
IMPATIENT = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
STATUSES_OF_A_SHELL = (126, 127)  # reported already: nothing was started


@dataclass(frozen=True)
class JobStart:
    """When the job began, by the clock of files, and the files that its output goes to, if to files: their
    paths, and where in each its output begins. What is before that somebody else wrote."""

    moment: float
    outputs: tuple[str, ...]
    begins: Mapping[Identity, int]

    @classmethod
    def now(cls) -> JobStart:
        """Before the job is started, while standard output is still the caller's."""
        # Kernels stamp files with the clock of the last tick, which is behind.
        outputs = _outputs()
        paths = tuple(dict.fromkeys(path for path, _file, _begin in outputs))
        # Of a file that is open twice the first place counts, which is the last of these.
        begins = {file: begin for _path, file, begin in reversed(outputs)}
        return cls(time.time() - 0.1, paths, begins)


def explain_failure(status: int, beginning: JobStart, variables: Mapping[str, str]) -> Optional[str]:
    """The explanation as text; None where the job did not fail, no log was written, or none says why."""
    if status == 0 or status in ENDED or status in STATUSES_OF_A_SHELL:
        return None
    from npudoctor.launch.child import run_in_child

    def work() -> dict[str, Any]:
        _end_together()
        return {"text": _explain_logs(beginning, variables)}

    try:
        with _heed_signals():
            answer = run_in_child(work, SECONDS) or {}
    except (_Stopped, OSError):
        return None
    text = answer.get("text")
    return text if isinstance(text, str) and text else None


class _Stopped(Exception):
    """A signal asked not to wait for the explanation."""


@contextmanager
def _heed_signals() -> Iterator[None]:
    """Signals were held while the job ran; now those that end a process end only the reading of logs."""

    def stop(*_told: object) -> None:
        raise _Stopped

    for number in IMPATIENT:
        signal.signal(number, stop)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, IMPATIENT)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, IMPATIENT)


def _end_together() -> None:
    """In the child: what it starts to read with ends with it, at the latest when its time is over."""
    os.setpgid(0, 0)
    for number in (*IMPATIENT, signal.SIGALRM):
        signal.signal(number, lambda *_told: os.killpg(0, signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.alarm(int(SECONDS))


def _explain_logs(beginning: JobStart, variables: Mapping[str, str]) -> str:
    """A log that shows no failure, or one that nobody knows, is no explanation."""
    from npudoctor.cli.diagnosis import explain_words
    from npudoctor.cli.request import ExplainRequest
    from npudoctor.explain.answer import add_remedies
    from npudoctor.explain.reading.newest import LOOSE, find_newest_logs
    from npudoctor.render.explain_text import explain_text

    started = time.monotonic()
    # Of other files in this folder nobody knows that this very job wrote them.
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


def _outputs() -> tuple[tuple[str, Identity, int], ...]:
    """The regular files that standard output and error go to; none where they lie does not answer."""
    descriptors = [number for number in (1, 2) if not _path(number).startswith(("/dev/", "pipe:", "socket:"))]
    if not descriptors:
        return ()
    from npudoctor.core.forked import Late, ask

    try:
        return ask(
            lambda: tuple(sorted(file for descriptor in descriptors for file in _regular(descriptor))),
            seconds=1.0,
        )
    except (Late, OSError):
        return ()


def _path(descriptor: int) -> str:
    """What an open file is called; a mere look at the kernel's own memory."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return "/dev/null"


def _regular(descriptor: int) -> tuple[tuple[str, Identity, int], ...]:
    """The path of an open regular file, what file it is, and where it is written next; nothing for any other,
    or one whose name is gone."""
    path = _path(descriptor)
    try:
        file = os.fstat(descriptor)
        if not (stat.S_ISREG(file.st_mode) and os.path.samestat(os.stat(path), file)):
            return ()
        appended = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
        begin = file.st_size if appended else os.lseek(descriptor, 0, os.SEEK_CUR)
        return ((path, (file.st_dev, file.st_ino), begin),)
    except OSError:
        return ()
