"""What `run` says when the job failed: what `explain` says of the logs written since its start."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

from npudoctor.core.frozen import dataclass

SECONDS = 30.0  # the longest that a job's end waits for it
READING = 20.0  # of them for the logs
# Who ended the job knows why: a person, or the batch system.
ENDED = frozenset(128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))
IMPATIENT = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
STATUSES_OF_A_SHELL = (126, 127)  # said already: nothing was started


@dataclass(frozen=True)
class JobStart:
    """When the job began, by the clock of files, and the files that its output goes to, if to files."""

    moment: float
    outputs: tuple[str, ...]

    @classmethod
    def now(cls) -> JobStart:
        """Before the job is started, while standard output is still the caller's."""
        # Kernels stamp files with the clock of the last tick, which is behind.
        return cls(time.time() - 0.1, _outputs())


def explain_failure(status: int, beginning: JobStart, variables: Mapping[str, str]) -> Optional[str]:
    """The explanation as text; None where the job did not fail, no log was written, or none says why."""
    if status == 0 or status in ENDED or status in STATUSES_OF_A_SHELL:
        return None
    from npudoctor.launch.child import run_in_child

    def work() -> dict[str, Any]:
        _end_together()
        return {"text": _explained(beginning, variables)}

    try:
        with _heeding():
            answer = run_in_child(work, SECONDS) or {}
    except (_Stopped, OSError):
        return None
    text = answer.get("text")
    return text if isinstance(text, str) and text else None


class _Stopped(Exception):
    """Somebody does not want to wait for the explanation."""


@contextmanager
def _heeding() -> Iterator[None]:
    """While a job runs all signals are held; now those that end something end our reading, and no more."""

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


def _explained(beginning: JobStart, variables: Mapping[str, str]) -> str:
    """A log that shows no failure, or one that nobody knows, is no explanation."""
    from npudoctor.cli.explaining import ExplainRequest, explain_words
    from npudoctor.explain.reading.gather import automatic
    from npudoctor.explain.reading.newest import LOOSE
    from npudoctor.explain.signatures.remedies import remedied
    from npudoctor.render.explain_text import explain_text

    started = time.monotonic()
    # Of other files in this folder nobody knows that this very job wrote them.
    places = (place.path for place in automatic(variables).found if place.kind != LOOSE)
    paths = (*beginning.outputs, *places)
    if not paths:
        return ""
    explanation = explain_words(ExplainRequest(paths, variables, started, READING, beginning.moment))
    return (
        explain_text(remedied(explanation, None))
        if explanation.diagnoses and explanation.exit_code == 0
        else ""
    )


def _outputs() -> tuple[str, ...]:
    """The regular files that standard output and error go to; none where they lie does not answer."""
    descriptors = [number for number in (1, 2) if not _path(number).startswith(("/dev/", "pipe:", "socket:"))]
    if not descriptors:
        return ()
    from npudoctor.explain.reading.bounded import Late, ask

    try:
        return ask(
            lambda: tuple(sorted({path for descriptor in descriptors for path in _regular(descriptor)})),
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


def _regular(descriptor: int) -> tuple[str, ...]:
    """The path of an open regular file; nothing for any other, or one whose name is gone."""
    path = _path(descriptor)
    try:
        same = os.path.samestat(os.stat(path), os.fstat(descriptor))
        return (path,) if same and os.path.isfile(path) else ()
    except OSError:
        return ()
