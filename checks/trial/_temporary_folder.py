"""What trial-files says of the folder of temporary files, and which other one would do."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    WARNING,
    Action,
    Command,
    Export,
    Finding,
    Fix,
    Host,
    Risk,
    Severity,
    _,
    change_variable,
)
from npudoctor.checks.trial._folders import is_installed, writer
from npudoctor.checks.trial._refusals import explain_refusal, give_owner_rights
from npudoctor.checks.trial._trying import count_ranks
from npudoctor.core.errors import CannotTell, Silent
from npudoctor.trial.trials import Attempt, Trial

INDUCTOR = "TORCHINDUCTOR_CACHE_DIR"
# sun_path has 108 bytes (unix(7)), and glibc's and Python's paths end with a null byte.
LONGEST = 107
# If the disk is full, disk-space reports the cause.
FULL = ("disk-space.full", "disk-space.no-inodes")
# The variables of Python's tempfile, in its order.
TEMPORARY = ("TMPDIR", "TEMP", "TMP")
# The variable that redirects the folder, for names that are not variables themselves.
VARIABLES = {
    "CANN log": "ASCEND_PROCESS_LOG_PATH",
    "atc_data": "ACL_OP_COMPILER_CACHE_DIR",
    "kernel_meta": "MS_COMPILER_CACHE_PATH",
}


def count_names(host: Host, sockets: int = 3) -> int:
    """Return how many names the job creates in its temporary folder before its first step: multiprocessing a
    folder with a socket; torchrun three folders, and one for each rank, whose data loaders have `sockets`
    sockets."""
    return 3 + (1 + sockets) * count_ranks(host) if is_installed(host, "torch") else 2


def chosen_folder(trial: Trial) -> str:
    """Return the temporary folder that the job's programs use; "" if there is none."""
    for attempt in trial.attempts:
        if attempt.facts.get("step") == "temporary" and not attempt.refused:
            return str(attempt.facts["path"])
    return ""


def find_hanging(host: Host, trial: Trial) -> Iterator[Finding]:
    """Report a temporary folder whose file server does not answer: every job waits there as the trial did."""
    name, path = next(
        (
            (name, host.variables[name])
            for name in TEMPORARY
            if trial.hung and host.variables.get(name) and trial.hung == f"write {host.variables[name]}"
        ),
        ("", ""),
    )
    try:
        if path.startswith("/"):
            host.running_files.stat(path)
    except Silent as error:
        yield Finding(
            "trial-files.cannot-write",
            _("temporary files of {user} go to {path}, which does not respond: {why}").format(
                user=writer(host), path=f"{name}={path}", why=error.reason
            ),
            action=Action.CONFIG,
            fix=change_variable(_("use another folder, in the shell that starts the job"), name, None, path),
        )
    except CannotTell:
        return


def judge_temporary(host: Host, trial: Trial, by_step: dict[str, list[Attempt]]) -> Iterator[Finding]:
    """Judge the temporary folder. The first refusal is about the folder that the variables name."""
    chosen, refused = chosen_folder(trial), by_step.get("temporary", [])
    if refused and (chosen or (trial.hung, trial.died) == (None, None)):
        yield _report_unusable(host, refused, chosen)
    for attempt in by_step.get("own-folder", ()):
        yield _report_own_folder(host, attempt)
    for attempt in by_step.get("rename", ()):
        text = _("{user} cannot rename files in {path}: {why}")
        yield report_in_temporary(host, attempt, text, WARNING, None)
    # torch.compile loads C++ kernels that it builds in the temporary folder, unless TORCHINDUCTOR_CACHE_DIR
    # names another one.
    for attempt in by_step.get("execute", ()):
        if is_installed(host, "torch") and not host.variables.get(INDUCTOR):
            text = _("{user} cannot load what torch.compile builds in {path}: {why}")
            yield report_in_temporary(
                host, attempt, text, WARNING, redirect_fix(host, [INDUCTOR], _writable_home(trial))
            )
    for attempt in by_step.get("many", ()):
        yield _report_few_names(host, attempt)
    if "socket" not in by_step:  # which would be the same once more
        for attempt in by_step.get("again", ()):
            text = _("{user} cannot reopen the files that it creates in {path}: {why}")
            yield report_in_temporary(host, attempt, text, WARNING, None)
    yield from _judge_sockets(host, trial, by_step.get("socket", []))


def _report_unusable(host: Host, refused: Sequence[Attempt], chosen: str) -> Finding:
    attempt = refused[0]
    name, path = str(attempt.facts["name"]), str(attempt.facts["path"])
    why = explain_refusal(host, attempt)
    words = {"user": writer(host), "path": f"{name}={path}" if name else path, "why": why.why}
    fix = why.fix
    if chosen:
        text = _("{user} cannot write to {path}: {why}; temporary files go to {chosen}")
        if name:
            title = _("use {path} instead, in the shell that starts the job", path=chosen)
            fix = change_variable(title, name, None, path)
    else:
        text = _("{user} has no temporary folder: {path} cannot be written: {why}")
    return Finding(
        "trial-files.cannot-write",
        text.format(chosen=chosen, **words),
        severity=WARNING if chosen else ERROR,
        evidence=(
            *why.evidence,
            *(f"{other.facts['path']}: {explain_refusal(host, other).why}" for other in refused[1:]),
        ),
        action=Action.CONFIG,
        fix=fix,
        echo_of=() if chosen else FULL,
    )


def report_in_temporary(
    host: Host, attempt: Attempt, text: str, severity: Severity, fix: Optional[Fix]
) -> Finding:
    path, why = str(attempt.facts["path"]), explain_refusal(host, attempt)
    reason = why.why
    if attempt.facts["step"] == "execute" and any("noexec" in line for line in why.evidence):
        reason = _("it is mounted with noexec")
    return Finding(
        "trial-files.cannot-write",
        text.format(user=writer(host), path=path, why=reason),
        severity=severity,
        evidence=why.evidence,
        action=Action.CONFIG,
        fix=fix or why.fix,
    )


def _report_own_folder(host: Host, attempt: Attempt) -> Finding:
    path, why = str(attempt.facts["path"]), explain_refusal(host, attempt)
    reason, evidence, fix = why.why, why.evidence, why.fix
    if attempt.number == errno.EACCES:  # the trial itself created it a moment before
        evidence, fix = give_owner_rights(int(attempt.facts.get("umask", 0)), path)
        reason = attempt.reason
    text = _("{user} cannot use a folder that it makes in {path}, as multiprocessing does: {why}")
    return Finding(
        "trial-files.cannot-write",
        text.format(user=writer(host), path=path, why=reason),
        evidence=evidence,
        action=Action.CONFIG,
        fix=fix,
    )


def _report_few_names(host: Host, attempt: Attempt) -> Finding:
    path = str(attempt.facts["path"])
    words = {
        "user": writer(host),
        "path": path,
        "made": attempt.facts["made"],
        "count": attempt.facts["count"],
    }
    text = _(
        "{user} can create only {made} of the {count} files in {path} that the job needs to start: {why}"
    )
    why = explain_refusal(host, attempt)
    return Finding(
        "trial-files.cannot-write",
        text.format(why=why.why, **words),
        severity=ERROR if int(attempt.facts["made"]) < count_names(host, sockets=0) else WARNING,
        evidence=why.evidence,
        action=Action.CLEANUP if attempt.number == errno.ENOSPC else Action.CONFIG,
        fix=why.fix,
        echo_of=FULL,
    )


def _judge_sockets(host: Host, trial: Trial, refused: Sequence[Attempt]) -> Iterator[Finding]:
    """Judge the sockets by the last one that was tried: after torch's long name, a shorter one as
    multiprocessing uses."""
    if not refused:
        return
    other_folder = next(
        (
            str(attempt.facts["path"])
            for attempt in trial.attempts
            if attempt.facts.get("step") == "instead" and not attempt.refused
        ),
        "",
    )
    variable = next(
        str(attempt.facts["name"])
        for attempt in trial.attempts
        if attempt.facts.get("step") == "temporary" and not attempt.refused
    )
    before = host.variables.get(variable or "TMPDIR")
    title = _("use {path} instead, in the shell that starts the job", path=other_folder)
    fix = change_variable(title, variable or "TMPDIR", other_folder, before) if other_folder else None
    if refused[0].number != errno.ENAMETOOLONG:
        text = _("{user} cannot create a Unix socket in {path}, which data loaders need: {why}")
        yield report_in_temporary(host, refused[0], text, ERROR, fix)
        return
    # CPython releases that have multiprocessing.util._SUN_PATH_MAX use /tmp if the path of TMPDIR is too
    # long.
    falls_back = bool(trial.facts().get("falls_back"))
    is_fatal = len(refused) > 1 and not falls_back
    text = _(
        "{path} is {size} bytes long: multiprocessing and data loaders cannot create their sockets in it "
        "(at most {most} bytes)"
    )
    if not is_fatal:
        if not is_installed(host, "torch"):
            return
        text = _(
            "{path} is {size} bytes long: torch's shared memory manager cannot create its socket in it (at "
            "most {most} bytes)"
        )
    last = refused[-1] if is_fatal else refused[0]
    path = str(last.facts["path"])
    yield Finding(
        "trial-files.path-too-long",
        text.format(
            path=f"{variable}={path}" if variable else path,
            size=int(last.facts["length"]) - int(last.facts["added"]),
            most=LONGEST - int(last.facts["added"]),
        ),
        severity=ERROR if is_fatal else WARNING,
        evidence=(f"{last.facts['length']} > {LONGEST}",),
        action=Action.CONFIG,
        fix=fix,
    )


def redirect_fix(host: Host, names: Sequence[str], folder: str) -> Optional[Fix]:
    """Return the fix that redirects the folders to one that the trial could write; None without such a
    folder."""
    steps: list[Union[Command, Export]] = []
    for name in names:
        variable = VARIABLES.get(name, name)
        path = f"{folder.rstrip('/')}/{writer(host)}-{variable.lower()}"
        if variable == "ASCEND_CACHE_PATH":  # CANN does not make it
            steps.append(Command(("mkdir", "-p", path)))
        steps.append(Export(variable, path))
    if not steps or not folder:
        return None
    title = _("use {path} for it, in the shell that starts the job", path=folder)
    return Fix(title, steps=tuple(steps), risk=Risk.MANUAL, needs_root=False)


def _writable_home(trial: Trial) -> str:
    """Return HOME if the trial could write there; else ""."""
    for attempt in trial.attempts:
        if attempt.facts.get("name") == "HOME" and not attempt.refused:
            return str(attempt.facts["path"])
    return ""
