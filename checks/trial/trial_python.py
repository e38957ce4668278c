"""Does the job's Python start, with the modules that every framework imports, and another one from it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Union

from npudoctor import (
    ERROR,
    WARNING,
    Action,
    Command,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Unknown,
    _,
    change_variable,
    check,
)
from npudoctor.checks.trial._folders import has_framework, is_installed
from npudoctor.checks.trial._modules import (
    LIBRARIES,
    absent_module,
    failing_library,
    is_system_python,
    library_fix,
    module_fix,
)
from npudoctor.checks.trial._trying import raise_if_incomplete, skip_unless_allowed
from npudoctor.core.errors import CannotTell, DoesNotRun
from npudoctor.facts.job.working_directory import working_directory
from npudoctor.trial.trials import Attempt, Trial

if TYPE_CHECKING:
    from npudoctor.facts.python.frameworks import ClosedNeed

# Without these torch and MindSpore cannot be imported; the others are for what only some jobs do.
BASIC = frozenset((
    *("zlib", "ctypes", "socket", "subprocess", "hashlib", "uuid"),
    *("multiprocessing.synchronize", "multiprocessing.queues"),
))  # fmt: skip
KILLED = (9, 14, 15)  # SIGKILL, SIGALRM, SIGTERM: sent by others or at the deadline, not a crash of Python
# Finders in sys.meta_path of Python itself, and those of setuptools and virtualenv, which find no packages.
FINDERS = ("_frozen_importlib", "_frozen_importlib_external", "_distutils_hack", "_virtualenv")
MOST = 8  # files that are shown
FORKSERVER_FIRST = (3, 14)  # the first release with forkserver as the default start method on Linux
# Findings of checks that explain why Python does not start, by reading files only.
CAUSES = (
    *("interpreter.does-not-run", "virtual-environment.base-missing"),
    *("python-variables.no-standard-library", "python-variables.bad-value"),
    "import-limits.not-executable",
    *("standard-library.module-missing", "standard-library.damaged", "standard-library.library-missing"),
    "standard-library.not-readable",
)
# torchrun passes LOGLEVEL to logging.setLevel(), which raises ValueError for an unknown name.
LOG_LEVEL, SHOWN = "LOGLEVEL", 40
SHADOWED = "source-shadowing.standard-library"


@check(
    "trial-python",
    scope=Scope.JOB,
    quick=False,
    codes={"trial-python.cannot-start": ERROR, "trial-python.module-missing": ERROR},
)
def trial_python(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The job's Python starts and has the required modules.

    ## What it does

    Starts the job's own interpreter with the job's variables, and imports the standard library modules that
    frameworks import: zlib, ctypes, socket, subprocess, hashlib, uuid, multiprocessing.synchronize and
    multiprocessing.queues, then ssl, lzma, bz2, sqlite3, decimal and zoneinfo. Starts another Python from it
    with multiprocessing's forkserver, whose server starts as a child of `spawn` does, or with `spawn` itself
    where there is no such server. Enters the working directory again, as each of these does. The socket of
    the server is in no folder; before Python 3.9 it is in the temporary one, and is removed at once, even if
    the child is killed. A package that a framework requires is imported too if this user cannot read its
    metadata. The places where that Python looks for modules are compared with what the other checks know of
    them.

    - `trial-python.cannot-start`: the interpreter exits before the first line, dies while it imports a
      module, or cannot start another one; or torchrun does not know the level that LOGLEVEL names. A warning
      where the job's user cannot enter the working directory and a framework is installed, because its
      launcher starts ranks without entering it.
    - `trial-python.module-missing`: a module is missing, and the finding names the library or the package
      that it was built without. Or a shared library that the module needs is missing. A warning for the
      second half of the list, which only some jobs need: downloads (ssl), torchvision (lzma, bz2).

    As root the check is skipped, unless `--as-user` names the job's user.

    ## Why it matters

    `ModuleNotFoundError: No module named '_ctypes'` from the first import of a framework: the Python was
    built on a machine without the headers of libffi, which its build mentions in one line among thousands.

    ## Fix safety

    Shown only: the administrator installs packages of the system.

    ## References

    Python, "Python Setup and Usage: Build requirements"; multiprocessing, "Contexts and start methods".
    """
    skip_unless_allowed(host)
    python, needed = host.interpreter.label, _find_closed_needs(host)
    try:
        trial = host.trials.try_part(
            "python",
            needed=[need.module for need in needed],
            levels=[LOG_LEVEL] if is_installed(host, "torch") else [],
        )
    except DoesNotRun as error:
        yield _report_cannot_start(error.reason, (f"`{error.last_line}`",) if error.last_line else ())
        return
    yield Facts({"tried": [attempt.what for attempt in trial.attempts]})
    reported: set[str] = set()
    for attempt in trial.refused():
        if attempt.facts.get("step") == "import" and attempt.why not in reported:
            reported.add(attempt.why)  # what one library lacks, several modules say
            yield _report_module(host, attempt)
    yield from _judge_needed(host, trial, needed)
    yield from _judge_starts(host, trial)
    yield from _judge_log_level(host, trial)
    yield from _judge_directory(host, trial)
    if trial.died is not None and trial.signal not in KILLED:
        yield _report_death(python, trial)
        return
    if trial.waits_for:
        text = _("{python} does not start: {why}", python=python, why=trial.waits_for)
        yield _report_cannot_start(text, ())
        return
    raise_if_incomplete(trial)
    _require_known_search_path(host, trial)
    if any(attempt.facts.get("step") == "remover" for attempt in trial.refused()):
        raise Unknown(
            _("cannot start a second process to clean up: steps that need a file name were skipped")
        )


def _judge_log_level(host: Host, trial: Trial) -> Iterator[Finding]:
    for attempt in trial.refused():
        if attempt.facts.get("step") == "log level":
            value = host.variables.get(LOG_LEVEL, "")
            title = _("unset it, or use a level of Python's logging: DEBUG, INFO, WARNING, ERROR")
            yield Finding(
                "trial-python.cannot-start",
                _(
                    "torchrun does not start with the log level {variable}={value}: {why}",
                    variable=LOG_LEVEL,
                    value=value[:SHOWN],
                    why=attempt.reason,
                ),
                action=Action.CONFIG,
                fix=change_variable(title, LOG_LEVEL, None, value),
            )


def _find_closed_needs(host: Host) -> list[ClosedNeed]:
    """Return requirements whose metadata this user may not read, so that only an import can judge them; empty
    if that is unknown."""
    if not has_framework(host):
        return []
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.facts.python.frameworks import closed_needs

    try:
        return [need for need in closed_needs(host) if need.module]
    except CannotTell:
        # Then no requirement is known, and the trial imports only the standard library.
        return []


def _judge_needed(host: Host, trial: Trial, needed: Sequence[ClosedNeed]) -> Iterator[Finding]:
    need_by_module = {need.module: need for need in needed}
    for attempt in trial.refused():
        if attempt.facts.get("step") != "needed":
            continue
        need = need_by_module[str(attempt.facts["module"])]
        yield Finding(
            "trial-python.module-missing",
            _(
                "{python} cannot import {module}, which a framework requires: {why}",
                python=host.interpreter.label,
                module=need.module,
                why=attempt.reason,
            ),
            severity=ERROR if need.needed else WARNING,
            evidence=(need.copy.folder,),
            action=Action.CONFIG,
            fix=Fix(
                _("as the owner, make the installed files readable for all users"),
                steps=(Command(("chmod", "-R", "a+rX", need.place, need.copy.folder)),),
                risk=Risk.MANUAL,
            ),
        )


def _require_known_search_path(host: Host, trial: Trial) -> None:
    """Raise Unknown if this Python searches folders that the other checks do not know, because they do not
    run code of .pth files."""
    facts = trial.facts()
    try:
        layout = host.interpreter.layout()
    except CannotTell:  # the checks that need the layout report it
        return
    if not layout.unread or "search_path" not in facts:
        return
    # An empty entry of PYTHONPATH means the working directory, which source-shadowing judges.
    known_folders = {working_directory(host)}
    for folder in (*layout.search_path, *host.variables.path_list("PYTHONPATH")):
        known_folders |= {folder, host.running_files.real(folder)}
    more = [folder for folder in facts["search_path"] if folder not in known_folders]
    more += [finder for finder in facts["finders"] if finder not in FINDERS]
    if more:
        raise Unknown(
            _(
                "{path} leads to {more}, which was not checked",
                path=layout.unread[0],
                more=", ".join(more),
            )
        )


def _report_module(host: Host, attempt: Attempt) -> Finding:
    module, python = str(attempt.facts["module"]), host.interpreter.label
    absent, (soname, is_missing) = absent_module(attempt.why), failing_library(attempt.why)
    words = {"python": python, "module": module, "why": attempt.reason, "library": soname}
    if soname:
        fix = library_fix(host, soname, not is_missing)
        text = _("{python} cannot import {module}: {why}")
        if is_missing:
            text = _("{python} cannot import {module}: {library} is missing")
    elif absent in LIBRARIES and not is_system_python(host):
        words["library"] = LIBRARIES[absent].name
        text = _("{python} has no module {module}: it was built without {library}")
        fix = module_fix(host, absent)
    elif absent:
        text = _("{python} has no module {module}: its standard library is incomplete")
        fix = module_fix(host, absent)
    else:
        text, fix = _("{python} cannot import {module}: {why}"), None
    return Finding(
        "trial-python.module-missing",
        text.format(**words),
        severity=ERROR if module in BASIC else WARNING,
        evidence=(
            f"`import {module}: {attempt.why}`",
            # If nothing is missing, one of these files may have replaced a module.
            *(() if absent or soname else map(str, attempt.facts.get("others", ())[:MOST])),
        ),
        action=Action.CONFIG,
        fix=fix,
        # source-shadowing reports the same with the file that hides the module.
        echo_of=(*CAUSES, SHADOWED) if has_framework(host) else CAUSES,
    )


def _judge_starts(host: Host, trial: Trial) -> Iterator[Finding]:
    """Report a start method of multiprocessing that fails: an error for spawn; for forkserver only where it
    is the default."""
    refused = {
        str(attempt.facts["method"]): attempt
        for attempt in trial.refused()
        if attempt.facts.get("step") == "start"
    }
    for method in ("spawn", "forkserver"):
        if method not in refused:
            continue
        why = refused[method].reason
        yield Finding(
            "trial-python.cannot-start",
            _(
                "{python} cannot start another Python by multiprocessing ({method}): {why}",
                python=host.interpreter.label,
                method=method,
                why=why,
            ),
            severity=ERROR if method == "spawn" or _python_version(host) >= FORKSERVER_FIRST else WARNING,
            evidence=(f"`{trial.last_line}`",) if trial.last_line else (),
            action=Action.CONFIG,
            echo_of=CAUSES,
        )
        return


def _judge_directory(host: Host, trial: Trial) -> Iterator[Finding]:
    """Report a working directory that a spawned child cannot enter."""
    for attempt in trial.refused():
        if attempt.facts.get("step") == "directory":
            yield Finding(
                "trial-python.cannot-start",
                _(
                    "a child that multiprocessing spawns cannot enter the working directory {path}: {why}",
                    path=attempt.facts["path"],
                    why=attempt.reason,
                ),
                severity=WARNING if has_framework(host) else ERROR,
                action=Action.CONFIG,
                fix=Fix(
                    _("start the job in a folder that belongs to its user"),
                    risk=Risk.MANUAL,
                    needs_root=False,
                ),
            )


def _python_version(host: Host) -> tuple[int, ...]:
    try:
        text = host.interpreter.layout().version or ""
    except CannotTell:
        text = ""
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def _report_death(python: str, trial: Trial) -> Finding:
    evidence = (f"`{trial.last_line}`",) if trial.last_line else ()
    if trial.died:
        text = _("{python} is killed by signal {number} in `{step}`")
        if not trial.signal:
            text = _("{python} exits in `{step}`")
        return _report_cannot_start(
            text.format(python=python, number=trial.signal, step=trial.died), evidence
        )
    text = _("{python} does not start: {why}")
    if trial.signal:
        text = _("{python} does not start: it is killed by signal {number}")
    return _report_cannot_start(
        text.format(python=python, why=f"`{trial.last_line}`", number=trial.signal), evidence
    )


def _report_cannot_start(message: str, evidence: tuple[str, ...]) -> Finding:
    return Finding(
        "trial-python.cannot-start", message, evidence=evidence, action=Action.CONFIG, echo_of=CAUSES
    )
