"""Runs a script of npudoctor.probes in a child of the job's interpreter, as the job would run."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass, field, replace
from npudoctor.core.messages import _, strerror
from npudoctor.core.parsing import json_of
from npudoctor.facts.job.tracebacks import Raised, parse_chain, parse_traceback
from npudoctor.facts.job.working_directory import absolute_search_paths, working_directory
from npudoctor.host.host import Host
from npudoctor.host.libraries.needs import split_path
from npudoctor.host.process.commands import CommandResult
from npudoctor.host.process.escaped_children import kill_marked_processes, seconds_since_boot

# The scripts are read as text: they run in the job's interpreter, which has no npudoctor.
FOLDER = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "probes"))
# Bytes; frameworks print warnings, and a job's code may print without end.
OUTPUT_LIMIT = 1 << 20
LEAST = 2.0  # seconds: with less left nothing is begun
MARGIN = 1.0  # seconds: what is left of the run after the last probe
ASKED_WHERE = 63  # the signal at which `start` says where the program is; not SIGUSR1 and 2, which jobs use
MARKED = "NPUDOCTOR_PROBE"  # the variable that a probe and all that it starts have
# Where frameworks write what is to be there the next time: all of it goes to the probe's own folder.
WRITTEN = (
    *("TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "CUDA_CACHE_PATH"),
    *("TRITON_CACHE_DIR", "TRITON_HOME", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TORCH_HOME"),
    *("VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT", "PADDLE_EXTENSION_DIR", "MS_COMPILER_CACHE_PATH", "HF_HOME"),
    *("ASCEND_WORK_PATH", "ASCEND_CACHE_PATH", "ASCEND_PROCESS_LOG_PATH"),
)
# Led to the probe's own folder only where the job names one: with any long value Paddle 3.3.1 for Python 3.9
# frees it twice at its exit. Where none is named, glog takes TMPDIR.
LOGS = "GLOG_log_dir"
# Of these a program dies by itself. SIGKILL and its like come from outside, and what memory it took the first
# time is not asked for twice.
CRASHES = (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGTRAP)
# As many at a time as a job would have: their seconds are told.
_ONE = threading.Lock()


class NoTimeLeft(CannotTell):
    """The run ends before a probe could answer."""


@dataclass(frozen=True)
class ProbeResult:
    """How a probe ended. `document`: the JSON object that it wrote; None when it did not come to its end.

    `raised`: the exceptions that ended it, the last one first. `loading`: the extension module that it began
    to load last. `finished`: it told all, and died afterwards, when Python ended. `died`: how a first try
    crashed, of one that came to its end when it was tried again. `single`: it crashed, and no time was left
    to try it again.
    """

    answer: CommandResult
    document: Optional[dict[str, Any]]
    raised: tuple[Raised, ...] = field(default=())
    loading: Optional[str] = None
    finished: bool = False
    died: Optional[str] = None
    single: bool = False

    @property
    def output(self) -> str:
        """Both streams of the probe, stdout first."""
        streams = (self.answer.stdout, self.answer.stderr)
        return "\n".join(part.strip("\n") for part in streams if part.strip())

    @property
    def last_line(self) -> str:
        """The last line of the output, which in a traceback is the error; "" when there is none."""
        return next((line.strip() for line in reversed(self.output.splitlines()) if line.strip()), "")

    @property
    def ending(self) -> str:
        """How it ended, for a person."""
        if self.answer.ended == "timeout":
            return _("no answer within {seconds:.0f} s", seconds=self.answer.seconds)
        status = self.answer.status
        if status is None:
            return self.answer.ended
        if status < 0:
            try:
                name = signal.Signals(-status).name
            except ValueError:  # one of the real-time signals
                name = "?"
            return _("killed by signal {number} ({name})", number=-status, name=name)
        if not status:
            return _("Python exited early with status 0")
        return _("exit status {status}", status=status)


def probe(host: Host, script: str, arguments: Sequence[str], timeout: float) -> ProbeResult:
    """Run a script of npudoctor.probes with the job's variables; modules are found as from the job's working
    directory.

    Nothing is left behind: it writes to a folder of its own, and what it started is ended. A probe that
    crashes is run once more with as little of ours as can be: two deaths are the job's. CannotTell where it
    may not be run; NoTimeLeft where the run ends before `timeout` seconds have passed.
    """
    # Looked at once for all probes, and by one thread: root's look may take seconds.
    why = host.once("trust in the job's modules", lambda: _why_not_imported(host))
    if why is not None:
        # The reason may be that the time was over, which is no property of the job.
        raise CannotTell(why) if _remaining_seconds(host) >= 0 else _no_time_left()
    first = _try_probe(host, script, arguments, timeout)
    if first.document is not None or -(first.answer.status or 0) not in CRASHES:
        return first
    try:
        again = _try_probe(host, script, arguments, timeout, plainly=True)
    except NoTimeLeft:
        return replace(first, single=True)
    return first if again.document is None else replace(again, died=first.ending)


def _why_not_imported(host: Host) -> Optional[str]:
    """Why nothing may be imported here; None where it may."""
    if host.options.root is not None:
        return _("an image is not running")
    if host.options.foreign_variables:
        return _("the examined variables belong to another user: run this check as that user")
    if not host.identity.is_root:
        return None
    from npudoctor.core.trust.job import why_not_imported

    variables = {**host.variables, **absolute_search_paths(host)}
    # The working directory and those of PYTHONPATH come first.
    here = working_directory(host)
    folders = [here] if here is not None and not host.variables.get("PYTHONSAFEPATH") else []
    folders += [*host.interpreter.layout().search_path, *split_path(variables.get("PYTHONPATH", ""), ":")]
    searched = list(dict.fromkeys(folder for folder in folders if folder.startswith("/")))
    return why_not_imported(host.commands.trust, variables, searched, host.options.until - MARGIN)


def _try_probe(
    host: Host, script: str, arguments: Sequence[str], timeout: float, plainly: bool = False
) -> ProbeResult:
    if not _ONE.acquire(timeout=max(0.0, _remaining_seconds(host))):
        raise _no_time_left()
    try:
        if _remaining_seconds(host) < LEAST:
            raise _no_time_left()
        token = secrets.token_hex(16)
        with _private_folder(host, token) as private:
            sources = []
            # noting.py changes Python's import system and faulthandler: the second try goes without.
            for name in ("start.py", script) if plainly else ("start.py", "noting.py", script):
                with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
                    sources.append(file.read())
            argv = [host.interpreter.program, "-c", "".join(sources), private, token, *arguments]
            # The job's, with what leads all that is written to the probe's own folder.
            variables = {**host.variables, **absolute_search_paths(host), **dict.fromkeys(WRITTEN, private)}
            if variables.pop(LOGS, "") and not plainly:
                variables[LOGS] = private
            variables.update({"PYTHONDONTWRITEBYTECODE": "1", MARKED: token})
            seconds = min(timeout, _remaining_seconds(host))
            answer = host.commands.run(
                argv,
                timeout=seconds,
                limit=OUTPUT_LIMIT,
                variables=variables,
                in_working_directory=True,
                group=True,
                farewell=ASKED_WHERE,
            )
            if answer.ended in ("missing", "untrusted", "not-started"):
                raise CannotTell(
                    _("{python} was not started: {why}", python=argv[0], why=answer.stderr or answer.ended)
                )
            if answer.ended == "timeout" and seconds < timeout:
                raise _no_time_left()
            return _read_result(answer, os.path.join(private, token))
    finally:
        _ONE.release()


def _read_result(answer: CommandResult, path: str) -> ProbeResult:
    """Read the file in which the probe wrote its answer, under a name that no module knows, and judge how it
    ended.
    """
    words: Any = None  # where it did not come to that
    # Half of a line, where it was killed while it wrote.
    with suppress(ValueError):
        words = json_of(_read_file(path))
    finished = isinstance(words, dict) and "raised" not in words
    if answer.ok and finished:
        return ProbeResult(answer, words)
    # Where it died before it could tell, or was ended by something other than an exception.
    raised = parse_chain(words["raised"]) if isinstance(words, dict) and "raised" in words else ()
    # Python itself could not start, or the file could not be written: stderr may have a traceback.
    if not raised and answer.ended == "exited" and (answer.status or 0) > 0:
        raised = parse_traceback(answer.stderr)
    return ProbeResult(answer, None, raised, _read_file(f"{path}.loading") or None, finished)


def _remaining_seconds(host: Host) -> float:
    """Seconds until the last probe must be over."""
    # Lock.acquire raises OverflowError above TIMEOUT_MAX; without a deadline `until` is infinite.
    return min(host.options.until - time.monotonic() - MARGIN, threading.TIMEOUT_MAX)


def _no_time_left() -> NoTimeLeft:
    return NoTimeLeft(_("the deadline of the run was reached first"))


@contextmanager
def _private_folder(host: Host, token: str) -> Iterator[str]:
    """Create a folder for one probe. Afterwards, or when the run is broken off, it is removed with all that
    is in it, and processes that carry this token are killed.
    """
    try:
        private = tempfile.mkdtemp(prefix="npudoctor-probe-")
    except OSError as error:
        raise CannotTell(_("cannot create a temporary folder: {why}", why=strerror(error.errno))) from error

    # Nothing is read of older processes: one stuck in the kernel may hold whoever reads its variables.
    since = seconds_since_boot()

    def clean() -> None:
        kill_marked_processes(f"{MARKED}={token}", since)
        shutil.rmtree(private, ignore_errors=True)

    # Runs when the whole run is broken off, which skips `finally` in threads.
    host.commands.at_close.append(clean)
    try:
        yield private
    finally:
        clean()
        host.commands.at_close.remove(clean)


def _read_file(path: str) -> str:
    """The text of a file in the probe's folder; "" where it is none that the probe could have written."""
    # The file is missing: the probe did not come that far.
    with suppress(OSError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags), "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(OUTPUT_LIMIT).decode("utf-8", "surrogateescape")
    return ""
