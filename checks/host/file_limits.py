"""How many files may a process of this shell have open?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Command,
    Compared,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    WriteFile,
    _,
    check,
)
from npudoctor.core.lazy import pattern
from npudoctor.facts.system.limits import limit_of
from npudoctor.facts.system.pam_limits import FOLDER, do_logins_apply_limits, pam_limit, read_sources
from npudoctor.host.resources import Limit
from npudoctor.host.users.accounts import groups_of, user_names

# Data loaders, the sockets of each rank to all others and mapped files share the limit.
FEW = 4096
NONE_AT_ALL = 32  # a Python that loads a framework has as many open at once
# 512000 is in Ascend's guide to porting and training PyTorch models: `ulimit -SHn 512000`.
ENOUGH, RECOMMENDED = 65536, 512000
# pam_limits reads the folder in the order of the C locale, and a later line for the same user wins
# (limits.conf(5)): 90 comes after most files.
LIMITS = f"{FOLDER}/90-npudoctor.conf"
# The kernel refuses every RLIMIT_NOFILE above this (getrlimit(2)).
NR_OPEN = "/proc/sys/fs/nr_open"

# The control group of a service, such as 0::/system.slice/slurmd.service.
_SERVICE = pattern(r"/([^/\n]+\.service)(?:/[^\n]*)?$", re.M)
# Services whose children are logins, or get their limits as logins do.
_LOGINS = pattern(r"(sshd?(@.*)?|crond?|(console-|serial-)?getty(@.*)?|user@\d+)\.service")


@check(
    "file-limits",
    scope=Scope.JOB,
    codes={
        "file-limits.unusable": ERROR,
        "file-limits.low": WARNING,
        "file-limits.below-guide": INFO,
        "file-limits.next-login": INFO,
    },
    compares=(Compared("soft", "open files, soft limit"),),
)
def file_limits(host: Host) -> Iterator[Union[Finding, Facts]]:
    """This shell's open file limit is high enough.

    ## What it does

    Reads the limit of open files (`ulimit -n`) that a job started from this shell inherits; with
    `--env-of PID`, the limit of that process. Ascend's guides recommend 512000; nothing is reported from
    65536 on.

    - `file-limits.unusable`: the limit is below 32; no framework gets far enough to train.
    - `file-limits.low`: the limit is at least 32, but below 4096.
    - `file-limits.below-guide`: the limit is at least 4096, but below 65536.
    - `file-limits.next-login`: the limit is too low now, but limits.conf or limits.d raises it enough at the
      next login.

    A shell may raise its own soft limit up to the hard limit. Only root can raise it further, and only for
    new sessions. A service gets its limits from its unit, a Slurm job from slurmd or from the shell that
    submitted it, and a container when it is created.

    ## Why it matters

    Data loaders, sockets to every rank and mapped files share the limit. Where it is reached, a job of many
    ranks ends with "Too many open files", often long after its start.

    ## Fix safety

    What the shell can do itself, up to its hard limit, is shown only: a child process cannot raise a limit
    for its parent. For logins, /etc/security/limits.d/90-npudoctor.conf is written where pam_limits is in
    use. The risk is CAUTION: a program that closes every possible descriptor starts more slowly. The file
    never asks for more than fs.nr_open, because then no session could be opened. `npudoctor undo` removes the
    file; open sessions keep their limits.

    ## References

    Ascend guide to porting and training PyTorch models (`ulimit -SHn 512000`); getrlimit(2);
    limits.conf(5), pam_limits(8); systemd.exec(5), LimitNOFILE.
    """
    limit = limit_of(host, "Max open files")
    yield Facts({"soft": limit.soft, "hard": limit.hard})
    if limit.soft is None or limit.soft >= ENOUGH:
        return
    is_low = limit.soft < FEW
    # The limit after the next login of the examined user; None if this process does not get its limit from a
    # login, or if pam_limits is not in use.
    next_limit = None
    if not (
        _is_hard_limit_enough(limit)
        or host.system.is_container()
        or _is_slurm_job(host)
        or _service_unit(host)
    ):
        files = host.running_files
        next_limit = (
            pam_limit(read_sources(files), "nofile", *_user(host)) if do_logins_apply_limits(files) else None
        )
    if next_limit and next_limit.soft is not None and next_limit.soft >= ENOUGH:
        yield Finding(
            "file-limits.next-login",
            _(
                "the open file limit is {soft} but is high enough from the next login: log in again",
                soft=limit.soft,
            ),
            evidence=(*_evidence(limit), next_limit.path),
        )
        return
    if limit.soft < NONE_AT_ALL:
        code = "file-limits.unusable"
    else:
        code = "file-limits.low" if limit.soft < FEW else "file-limits.below-guide"
    yield Finding(
        code,
        _(
            "the open file limit is {soft}; the Ascend guide recommends {recommended}",
            soft=limit.soft,
            recommended=RECOMMENDED,
        ),
        evidence=_evidence(limit),
        action=Action.CONFIG if is_low else Action.NONE,
        fix=_remedy(host, limit),
        echo_of=() if code == "file-limits.unusable" else ("trial-processes.no-descriptors",),
    )


def _remedy(host: Host, limit: Limit) -> Fix:
    """Return the fix that raises the hard limit for later logins. If no command here can do that, return what
    this shell can do now, if that helps."""
    if _is_hard_limit_enough(limit):
        return _shell_fix(limit)
    fix = _raise_hard_limit(host)
    return _shell_fix(limit, fix) if fix.risk is Risk.MANUAL and _has_useful_room(limit) else fix


def _is_hard_limit_enough(limit: Limit) -> bool:
    return limit.hard is None or limit.hard >= ENOUGH


def _evidence(limit: Limit) -> tuple[str, ...]:
    hard = "unlimited" if limit.hard is None else str(limit.hard)
    lines = [f"ulimit -Sn {limit.soft}, ulimit -Hn {hard}"]
    if _has_useful_room(limit) and not _is_hard_limit_enough(limit):
        lines.append(_("this shell can raise it now: {line}", line=f"ulimit -Sn {limit.hard}"))
    return tuple(lines)


def _has_useful_room(limit: Limit) -> bool:
    """Whether the soft limit is below FEW and the shell can raise it above, up to its hard limit."""
    return limit.soft is not None and limit.hard is not None and limit.soft < FEW < limit.hard


def _shell_fix(limit: Limit, later: Optional[Fix] = None) -> Fix:
    number = RECOMMENDED if limit.hard is None else min(limit.hard, RECOMMENDED)
    steps = (Command(("ulimit", "-Sn", str(number))),)
    title = _("raise the limit in the shell that starts the job")
    if later is not None:
        title = _(
            "raise the limit to the hard limit in the shell that starts the job; to go higher: {later}",
            later="; ".join((later.title, *later.commands)),
        )
    return Fix(title, steps=steps, risk=Risk.MANUAL, needs_root=False)


def _raise_hard_limit(host: Host) -> Fix:
    """Return the fix that raises the hard limit, which needs root and applies to new sessions."""
    number, unit = RECOMMENDED, _service_unit(host)
    if host.system.is_container():
        title = _("ask whoever starts the container to add --ulimit nofile={number}:{number}")
        words = ("--ulimit", f"nofile={number}:{number}")
        return Fix(title.format(number=number), risk=Risk.MANUAL, needs_root=False, container=words)
    if _is_slurm_job(host):
        title = _("a Slurm job inherits the limit of the submitting shell or of slurmd: raise it there")
        return Fix(title, (Command(("systemctl", "edit", "slurmd.service")),), risk=Risk.MANUAL)
    if unit:
        title = _(
            "services do not read limits.conf: set LimitNOFILE={number} for the service, then restart it"
        )
        step = Command(("systemctl", "edit", unit))
        return Fix(title.format(number=number), (step,), risk=Risk.MANUAL)
    # A small read: the kernel refuses reads of 4 MiB and more from /proc/sys (fs/proc/proc_sysctl.c).
    most = (host.running_files.text(NR_OPEN, 1 << 10) or "").strip()
    count = min(RECOMMENDED, int(most)) if most.isdigit() else 0
    # In limits.conf(5) the star does not apply to root, who needs a line of its own.
    content = "".join(f"{user_pattern} - nofile {count}\n" for user_pattern in ("*", "root"))
    why = _obstacle(host, count, content)
    if why:
        return Fix(why, risk=Risk.MANUAL)
    heading = _("raise both limits as root, then log in again; a service needs LimitNOFILE instead")
    return Fix(heading, (WriteFile.at(host, LIMITS, content),), risk=Risk.CAUTION)


def _obstacle(host: Host, number: int, content: str) -> Optional[str]:
    """Return why the file would be useless or harmful; None if it helps."""
    files = host.running_files
    folder = files.stat(FOLDER)
    if not do_logins_apply_limits(files) or folder is None or not folder.is_dir:
        return _(
            "logins on this machine do not read {path}: raise the limit where the session is opened",
            path=FOLDER,
        )
    if number < ENOUGH:
        # pam_limits refuses to open a session whose limit exceeds fs.nr_open: nobody could log in any more.
        return _("first raise the kernel's limit: fs.nr_open is too low or unknown")
    user, groups = _user(host)
    next_limit = pam_limit({**read_sources(files), LIMITS: content}, "nofile", user, groups)
    if (next_limit.soft or 0) < ENOUGH:
        return _(
            "change the setting for {user} in {path}: it overrides a new file",
            path=next_limit.path,
            user=user,
        )
    return None


def _user(host: Host) -> tuple[str, frozenset[str]]:
    """Return the name of the examined user and the groups of that user, as far as they are known."""
    files, identity = host.running_files, host.identity
    if not host.options.env_of:
        return identity.user, groups_of(files, identity.user, identity.groups)
    entry = files.stat(f"/proc/{host.options.env_of}")
    uid = entry.uid if entry else identity.euid
    user = user_names(files).get(uid, str(uid))
    return user, groups_of(files, user)


def _is_slurm_job(host: Host) -> bool:
    # slurmstepd puts jobs below /slurm (cgroup v1) or /system.slice/slurmstepd.scope (v2).
    return "SLURM_JOB_ID" in host.variables or "/slurm" in _cgroup_text(host)


def _service_unit(host: Host) -> Optional[str]:
    """Return the systemd unit of the service that the process belongs to; None for a login."""
    match = _SERVICE.search(_cgroup_text(host))
    return None if match is None or _LOGINS.fullmatch(match[1]) else match[1]


def _cgroup_text(host: Host) -> str:
    return host.running_files.text(f"/proc/{host.options.env_of or 'self'}/cgroup") or ""
