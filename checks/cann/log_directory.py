"""Can this user write CANN's logs where they go?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import (
    INFO,
    WARNING,
    Action,
    Command,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Skip,
    Unknown,
    _,
    change_variable,
    check,
)
from npudoctor.core.mounts import Mount
from npudoctor.facts.cann.installations import installs_of
from npudoctor.facts.job.working_directory import foreign_user, job_user
from npudoctor.facts.system.mounts import mount_at, mounts_of
from npudoctor.host import CannotTell
from npudoctor.host.users.access import NearestFolder, first_barrier, may_create_in, nearest_folder

# ASCEND_PROCESS_LOG_PATH beats ASCEND_WORK_PATH, which beats $HOME/ascend/log (hicann/runtime, log module).
OWN, WORK = "ASCEND_PROCESS_LOG_PATH", "ASCEND_WORK_PATH"
# CANN's default below HOME.
USUAL = "ascend/log"
# CANN creates them in its log folder: plog up to 5.0, later {debug,run,security}/plog.
FOLDERS = ("", "debug", "run", "security", "plog", "debug/plog", "run/plog", "security/plog")
# More names are not counted: the look must not take long.
MANY = 20_000


@check(
    "log-directory",
    scope=Scope.JOB,
    tags={"ascend"},
    needs=("cann", "$ASCEND_PROCESS_LOG_PATH", "$ASCEND_WORK_PATH"),
    codes={
        "log-directory.not-writable": WARNING,
        "log-directory.no-directory": WARNING,
        "log-directory.relative": INFO,
        "log-directory.many-files": INFO,
    },
)
def log_directory(host: Host) -> Iterator[Union[Finding, Facts]]:
    """CANN can write its logs.

    ## What it does

    Logs go to ASCEND_PROCESS_LOG_PATH, else to ASCEND_WORK_PATH, else to `ascend/log` in HOME, in the
    subfolders `debug`, `run` and `security`; missing folders are created. The check reads owner, mode and
    mount to see whether the job's user may write in the existing folders, or in the nearest folder above. It
    writes nothing, and another check covers disk space. What an NFS server lets root do is unknown.

    - `log-directory.not-writable`: often a folder that root created when a job once ran with sudo, or a file
      system that is mounted read-only.
    - `log-directory.no-directory`: the log folder, or a folder above it, is not a directory.
    - `log-directory.relative`: where the logs go depends on where the job is started.
    - `log-directory.many-files`: there are so many logs that each listing takes long. They are evidence: look
      at them before you remove them.

    ## Why it matters

    A job whose logs cannot be written still runs, and when it fails, the one file that says why is missing.

    ## Fix safety

    The lines are shown only. `chown -R` takes the folder away from whoever created it. If somebody else can
    change the tree while root walks through it, root can be led to other files.

    ## References

    - CANN, "Environment variables": ASCEND_PROCESS_LOG_PATH, ASCEND_WORK_PATH.
    """
    variables = host.variables
    if not any(variables.get(name) for name in (OWN, WORK)) and not installs_of(host):
        raise Skip(_("CANN is not installed on this machine, and no variable says where its logs go"))
    name = next((name for name in (OWN, WORK) if variables.get(name)), "HOME")
    home = variables.get("HOME") or job_user(host).home
    value = variables.get(name, "") if name != "HOME" else f"{home.rstrip('/')}/{USUAL}"
    yield Facts({"path": value, "from": name})
    if not value.startswith("/"):
        message = _(
            "CANN's logs go to {path} ({name}), which is relative to the folder where the job starts",
            path=value,
            name=name,
        )
        echo_of = ("identity.home-unset", "identity.home-missing") if name == "HOME" else ()
        yield Finding("log-directory.relative", message, action=Action.CONFIG, echo_of=echo_of)
        return
    mounts_of(
        host
    )  # asked first: else that it may not be read would look like a folder that may not be entered
    try:
        yield from _judge_folders(host, value, name)
    except CannotTell as error:
        # Only a closed folder is a fault; a file system that does not answer makes the result unknown.
        if not isinstance(error.__cause__, PermissionError):
            raise
        yield _report_not_entered(host, value, name, error.reason)


def _report_not_writable(
    host: Host, place: NearestFolder, mount: Optional[Mount], path: str, name: str
) -> Finding:
    text = _("CANN's logs cannot be written to {path} ({name}): {user} cannot write to {place}")
    read_only = mount is not None and mount.read_only
    if read_only:
        text = _("CANN's logs cannot be written to {path} ({name}): {mount} is mounted read-only")
    words = {"path": path, "name": name, "user": job_user(host).user, "place": place.path}
    words["mount"] = mount.point if mount else ""
    return Finding(
        "log-directory.not-writable",
        text.format(**words),
        evidence=(place.label,),
        action=Action.CONFIG,
        fix=None if read_only else _fix(host, place, name),
        echo_of=_home_causes(host, place.path, name),
    )


def _report_not_entered(host: Host, path: str, name: str, reason: str) -> Finding:
    user = job_user(host)
    return Finding(
        "log-directory.not-writable",
        _(
            "CANN's logs cannot be written to {path} ({name}): {user} cannot enter it",
            path=path,
            name=name,
            user=user.user,
        ),
        evidence=(reason,),
        action=Action.CONFIG,
        echo_of=_home_causes(host, host.variables.get("HOME") or user.home, name),
    )


def _judge_folders(host: Host, path: str, name: str) -> Iterator[Finding]:
    first = nearest_folder(host.files, path)
    places, foreign, user = [first], foreign_user(host), job_user(host)
    barrier = first_barrier(host.files, first.path, foreign) if foreign else None
    if barrier is not None:
        yield _report_not_entered(host, path, name, nearest_folder(host.files, barrier).label)
        return
    if first.exists and name != WORK:
        below = (nearest_folder(host.files, f"{path.rstrip('/')}/{folder}") for folder in FOLDERS[1:])
        places += [place for place in below if place.exists]
    for place in places:
        if not place.entry.is_dir:
            yield _report_no_directory(host, place, path, name)
            return
        mount = mount_at(host, place)
        may_write = may_create_in(place.entry, user, mount)
        if may_write is False:
            yield _report_not_writable(host, place, mount, path, name)
            return
        if may_write is None and user.is_root:
            raise Unknown(
                _("only the NFS server knows whether root may write in {place}", place=place.path),
                advisory=True,
            )
    count = sum(len(host.files.names(place.path)) for place in places) if first.exists and name != WORK else 0
    if count > MANY:
        yield Finding(
            "log-directory.many-files",
            _("{path} contains {count} CANN log files", count=count, path=path),
            action=Action.CLEANUP,
        )


def _home_causes(host: Host, place: str, name: str) -> tuple[str, ...]:
    """Return the codes of identity that explain the finding, if HOME or a folder above it is the obstacle.

    An unset HOME is the cause only if the system knows no home for the user (then it is "/").
    """
    home = host.variables.get("HOME") or job_user(host).home
    if name != "HOME" or not f"{home.rstrip('/')}/".startswith(f"{place.rstrip('/')}/"):
        return ()
    unset = ("identity.home-unset",) if home == "/" else ()
    return (*unset, "identity.home-missing", "identity.home-not-writable")


def _report_no_directory(host: Host, place: NearestFolder, path: str, name: str) -> Finding:
    return Finding(
        "log-directory.no-directory",
        _(
            "CANN's logs cannot be written to {path} ({name}): {place} is not a directory",
            path=path,
            name=name,
            place=place.path,
        ),
        evidence=(place.label,),
        action=Action.CONFIG,
        echo_of=_home_causes(host, place.path, name),
    )


def _fix(host: Host, place: NearestFolder, name: str) -> Optional[Fix]:
    """Return a fix that gives the user a folder back which somebody else (often root, by sudo) created in the
    user's home; else one that moves the logs there. None if the home itself belongs to another user."""
    identity = job_user(host)
    home = identity.home.rstrip("/")
    at_home = nearest_folder(host.files, home or "/")
    if not home or not at_home.exists or at_home.entry.uid != identity.euid:
        return None
    if place.path.startswith(f"{home}/"):
        return Fix(
            _("change the owner of {place} to {user}", place=place.path, user=identity.user),
            # Shown only: if somebody else can change the tree while root walks through it, root can be led to
            # other files.
            steps=(Command(("chown", "-R", str(identity.euid), place.path)),),
            undo=Command(("chown", "-R", str(place.entry.uid), place.path)).lines(),
            risk=Risk.MANUAL,
            needs_root=True,
        )
    better, before = f"{home}/{USUAL}", host.variables.get(OWN) or None
    if name == "HOME":
        return None
    place = nearest_folder(host.files, better)
    if not may_create_in(place.entry, job_user(host), mount_at(host, place)):
        return None
    return change_variable(_("write the logs to {path}", path=better), OWN, better, before)
