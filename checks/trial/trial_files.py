"""Can a job open the devices and make the files that its first minute needs?"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Optional, Union

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
    Severity,
    Unknown,
    _,
    check,
)
from npudoctor.checks.trial._devices import report_device
from npudoctor.checks.trial._folders import (
    OutputFolder,
    is_msrun_job,
    output_folders,
    writer,
)
from npudoctor.checks.trial._refusals import explain_refusal
from npudoctor.checks.trial._temporary_folder import (
    FULL,
    INDUCTOR,
    chosen_folder,
    count_names,
    find_hanging,
    judge_temporary,
    redirect_fix,
    report_in_temporary,
)
from npudoctor.checks.trial._trying import raise_if_incomplete, skip_unless_allowed
from npudoctor.core.errors import CannotTell, Silent, has_ended
from npudoctor.core.frozen import replace
from npudoctor.core.sizes import size_text
from npudoctor.trial.trials import Attempt, Trial

WORKING_DIRECTORY = "working directory"
# Names that msrun gives its logs in the working directory.
LOGS_OF_MSRUN = ("scheduler.log", "worker_0.log")
# Findings about HOME that explain a failure below it.
AT_HOME = ("identity.home-missing", "identity.home-not-writable")
# Findings of the checks that judge the same folders by owner and mode, without writing.
CACHES = (
    *("compile-cache.not-writable", "compile-cache.missing"),
    *("log-directory.not-writable", "log-directory.no-directory"),
)
# The codes of other checks that explain a finding, by the name of the folder.
CAUSES = {
    WORKING_DIRECTORY: ("working-directory.gone", *FULL),
    "HOME": (*AT_HOME, *FULL),
}


@check(
    "trial-files",
    scope=Scope.JOB,
    quick=False,
    tags={"files"},
    codes={
        "trial-files.cannot-write": ERROR,
        "trial-files.cannot-lock": WARNING,
        "trial-files.path-too-long": ERROR,
        "trial-files.device-unusable": ERROR,
    },
)
def trial_files(host: Host) -> Iterator[Union[Finding, Facts]]:
    """A job can open devices and create its files.

    ## What it does

    In a child of the job's Python, with the job's variables, limits and working directory, the trial opens
    /dev/null, /dev/zero, /dev/urandom, /proc/meminfo and a pseudo-terminal. It looks for the temporary folder
    as Python's tempfile does (TMPDIR, TEMP, TMP, /tmp, /var/tmp, /usr/tmp, the working directory; an
    append-only folder is skipped). There it writes a block to the disk, locks it (flock), maps it as
    executable, opens a file a second time, creates as many files at once as the job's start takes, renames
    one, and binds a Unix socket whose path is as long as torch's. It writes a block to the working directory,
    to HOME and to the caches and logs of the installed frameworks (torch, Triton, MindSpore, CANN), or to the
    parent folder in which they would be created, and locks it.

    The files have no name where the file system supports that (O_TMPFILE). A file that needs a name begins
    with `.npudoctor-trial-` and is removed at once, even if the child is killed.

    - `trial-files.cannot-write`: a folder cannot be written, or files in it cannot be renamed, executed, or
      grow to 1 GiB; or no socket can be created there, or no folder that its owner may enter. An error where
      no temporary folder can be used, no socket, no such folder or too few files can be created in it,
      `ulimit -f` allows no file, or MindSpore alone is installed and msrun cannot write its logs to the
      working directory; else a warning.
    - `trial-files.cannot-lock`: files in a folder cannot be locked, as on NFS without its lock service.
    - `trial-files.path-too-long`: the path of a Unix socket has at most 107 bytes, and the path of the
      temporary folder is too long. An error where multiprocessing itself cannot create its sockets; a warning
      where only torch's shared memory manager cannot (the sharing strategy `file_system`).
    - `trial-files.device-unusable`: an error for /dev/null, which launchers and the scripts around them open;
      for /proc/meminfo where MindSpore is installed, because its memory pool needs it; and for /dev/urandom
      where torch is installed, because its data loaders read it. A warning for the other devices, which few
      jobs need, and for a file in the place of /dev/null.

    A folder whose file server does not answer is not tried: a warning. For the temporary folder, in which the
    trial waited, it is an error; for the working directory, the result is unknown. As root the check is
    skipped, unless `--as-user` names the job's user.

    ## Why it matters

    `FileNotFoundError: No usable temporary directory found`, `OSError: AF_UNIX path too long` from the first
    data loader with workers, `Permission denied: '/dev/null'` from every launcher: a mode, a quota or a mount
    option refused, and the message does not say which.

    ## Fix safety

    Shown only. Other jobs use the same devices, mounts and folders.

    ## References

    open(2), O_TMPFILE; unix(7); flock(2); Python, tempfile.gettempdir(); PyTorch, torch_shm_manager.
    """
    skip_unless_allowed(host)
    folders, silent, unanswered = _find_answering(host)
    start_folder = next((folder.path for folder in folders if folder.name == WORKING_DIRECTORY), "")
    logs = [f"{start_folder}/{name}" for name in LOGS_OF_MSRUN] if start_folder and is_msrun_job(host) else []
    trial = host.trials.try_part(
        "files", folders=[_to_question(folder) for folder in folders], existing=logs, names=count_names(host)
    )
    yield Facts({"tried": [attempt.what for attempt in trial.attempts]})
    yield from _judge(host, replace(trial, attempts=(*trial.attempts, *silent)))
    yield from find_hanging(host, trial)
    raise_if_incomplete(trial)
    if any(attempt.number == errno.ECHILD for attempt in trial.refused()):
        raise Unknown(
            _("cannot start a second process to clean up: steps that need a file name were skipped")
        )
    if unanswered:
        raise Unknown(unanswered)


def _to_question(folder: OutputFolder) -> dict[str, object]:
    return {"name": folder.name, "path": folder.path, "makes": folder.makes, "locks": folder.locks}


def _find_answering(host: Host) -> tuple[list[OutputFolder], list[Attempt], str]:
    """Return the folders that the trial can use without hanging; failed attempts for those whose file server
    does not answer; and why another folder is left out, "" for none."""
    answering: list[OutputFolder] = []
    silent: list[Attempt] = []
    reason = ""
    for folder in output_folders(host):
        try:
            if folder.path.startswith("/"):
                host.running_files.stat(folder.path)
        except Silent as error:
            # The trial starts in the working directory: if that does not answer, the result is unknown.
            if folder.name == WORKING_DIRECTORY:
                reason = reason or error.reason
            else:
                silent.append(_to_silent_attempt(folder, error.reason))
            continue
        except CannotTell as error:
            # A folder that is refused or gone is still passed on: the trial reports the kernel's own reason.
            if not (isinstance(error.__cause__, PermissionError) or has_ended(error)):
                reason = reason or error.reason
                continue
        answering.append(folder)
    return answering, silent, reason


def _to_silent_attempt(folder: OutputFolder, reason: str) -> Attempt:
    facts = {"step": "folder", **_to_question(folder), "silent": reason}
    return Attempt(f"write {folder.path}", errno.ETIMEDOUT, reason, facts=facts)


def _judge(host: Host, trial: Trial) -> Iterator[Finding]:
    by_step: dict[str, list[Attempt]] = {}
    for attempt in trial.refused():
        if attempt.number != errno.ECHILD:
            by_step.setdefault(str(attempt.facts.get("step", "")), []).append(attempt)
    for attempt in (*by_step.get("device", ()), *by_step.get("proc", ())[:1], *by_step.get("terminal", ())):
        yield report_device(host, attempt)
    writing = [attempt for step in ("temporary", "folder") for attempt in by_step.get(step, ())]
    too_large = [attempt for attempt in writing if attempt.number == errno.EFBIG]
    if too_large:  # of every folder, by one limit
        yield _report_file_size(host, too_large[0], ERROR, size_text(4096))
        return
    for attempt in by_step.get("large", ()):
        if attempt.number == errno.EFBIG:
            yield _report_file_size(host, attempt, WARNING, size_text(int(attempt.facts["bytes"])))
    yield from judge_temporary(host, trial, by_step)
    for group in _group_by_place(by_step.get("folder", ())):
        yield _report_folder(host, group, chosen_folder(trial))
    for attempt in by_step.get("existing", ()):
        text = _("{user} cannot write to {path}, a log of msrun: {why}")
        title = _("start the job in its own folder, or give msrun a folder with --log_dir")
        yield report_in_temporary(host, attempt, text, ERROR, Fix(title, risk=Risk.MANUAL, needs_root=False))
    for attempt in by_step.get("lock", ()):
        yield _report_lock(host, attempt, chosen_folder(trial))


def _group_by_place(refused: Sequence[Attempt]) -> list[list[Attempt]]:
    """Group the attempts by folder; what is below an unwritable HOME belongs to the group of HOME."""
    groups: dict[str, list[Attempt]] = {}
    home = next((str(attempt.facts["path"]) for attempt in refused if attempt.facts["name"] == "HOME"), None)
    for attempt in refused:
        path = str(attempt.facts["path"])
        is_below_home = (
            home is not None and path.startswith(f"{home}/") and attempt.facts["name"] != "working directory"
        )
        place = home if is_below_home else str(attempt.facts.get("at") or path)
        groups.setdefault(str(place), []).append(attempt)
    return list(groups.values())


def _report_file_size(host: Host, attempt: Attempt, severity: Severity, size: str) -> Finding:
    why = explain_refusal(host, attempt)
    return Finding(
        "trial-files.cannot-write",
        _("{user} cannot write a file of {size}: {why}", user=writer(host), size=size, why=why.why),
        severity=severity,
        evidence=why.evidence,
        action=Action.CONFIG,
        fix=why.fix,
        echo_of=("import-limits.too-low",),
    )


def _report_folder(host: Host, group: Sequence[Attempt], chosen: str) -> Finding:
    """Report one folder that cannot be written, with everything that goes there; the first is the most
    general."""
    names = [str(attempt.facts["name"]) for attempt in group]
    why = explain_refusal(host, group[0])
    text = _("{user} cannot write to {path} ({names}): {why}")
    if names[0] == WORKING_DIRECTORY:
        text = _("{user} cannot write to the working directory {path}: {why}")
    variables = [name for name in names if name not in CAUSES]
    causes = CAUSES.get(names[0], (*CACHES, *AT_HOME, *FULL))
    # msrun stops if it cannot write its logs to the working directory.
    severity = ERROR if names[0] == WORKING_DIRECTORY and is_msrun_job(host) else WARNING
    return Finding(
        "trial-files.cannot-write",
        text.format(user=writer(host), path=group[0].facts["path"], names=", ".join(names), why=why.why),
        severity=severity,
        evidence=why.evidence,
        action=Action.CONFIG,
        # msrun's logs go to the working directory, and no variable redirects them.
        fix=why.fix
        or (redirect_fix(host, variables, chosen) if severity is WARNING else None)
        or _chown_fix(host, group[0], names[0]),
        echo_of=(*causes, *(CACHES if len(names) > 1 and severity is WARNING else ())),
    )


def _chown_fix(host: Host, attempt: Attempt, name: str) -> Optional[Fix]:
    """Return the chown command for root if the folder is HOME; None for others, which may belong to somebody
    else on purpose."""
    if name != "HOME" or attempt.number not in (errno.EACCES, errno.EPERM):
        return None
    path = str(attempt.facts["path"])
    title = _("change the owner of {place} to {user}", place=path, user=writer(host))
    return Fix(title, steps=(Command(("chown", writer(host), path)),), risk=Risk.MANUAL)


def _report_lock(host: Host, attempt: Attempt, chosen: str) -> Finding:
    name, path, why = str(attempt.facts["name"]), str(attempt.facts["path"]), explain_refusal(host, attempt)
    title = _("mount it with locking: on NFS without the option nolock, and with rpc.statd running")
    fix = Fix(title, risk=Risk.MANUAL)
    if name not in CAUSES and name in (INDUCTOR, "TRITON_CACHE_DIR", "XDG_CACHE_HOME") and chosen != path:
        fix = redirect_fix(host, [name], chosen) or fix
    return Finding(
        "trial-files.cannot-lock",
        _("files in {path} cannot be locked: {why}", path=f"{name}={path}" if name else path, why=why.why),
        evidence=why.evidence,
        action=Action.CONFIG,
        fix=fix,
        echo_of=("compile-cache.no-file-locks",),
    )
