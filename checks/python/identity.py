"""Does the user of this job have a name and a home?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from npudoctor import (
    INFO,
    WARNING,
    Action,
    Export,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Severity,
    _,
    check,
)
from npudoctor.core.errors import CannotTell, Silent, has_ended
from npudoctor.facts.job.working_directory import job_user
from npudoctor.host.users.accounts import home_of, user_names
from npudoctor.host.users.identity import Identity

# Where getpass.getuser() looks before it asks the machine for the name.
NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")


@check(
    "identity",
    scope=Scope.JOB,
    codes={
        "identity.no-passwd-entry": WARNING,
        "identity.home-unset": WARNING,
        "identity.home-missing": WARNING,
        "identity.home-not-writable": WARNING,
        "identity.home-of-another": INFO,
    },
)
def identity(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The job's user has its own name and home.

    ## What it does

    Checks whether the machine has a name for the user id of the job, whether HOME names a folder, and whether
    the owner and mode of that folder let this user write to it. Access control lists and read-only mounts are
    not visible.

    - `identity.no-passwd-entry`: the user id has no name, for example in a container that is started with
      `--user 1000`. Information if LOGNAME, USER, LNAME or USERNAME is set.
    - `identity.home-unset`: HOME is not set. Information if the system knows a home directory for the user.
    - `identity.home-missing`, `identity.home-not-writable`: HOME does not exist or is not a folder, or this
      user cannot write to it. Information if it does not exist and the user is root, who can create it.
    - `identity.home-of-another`: HOME belongs to another user, for example after `sudo` that keeps HOME.
      Files that a job of root writes there do not belong to the owner of HOME.

    ## Why it matters

    If the user id has no name, `getpass.getuser()` raises `KeyError: 'getpwuid(): uid not found'`, and
    PyTorch calls it for the folder of its compile cache. HOME contains CANN's logs (`~/ascend/log`) and the
    caches of compilers, models and pip: what cannot be written is lost, or ends the job.

    ## Fix safety

    The lines are `export` for the shell that starts the job; nothing is made or changed.

    ## References

    - Python, getpass.getuser().
    - CANN, "Log reference": where logs are kept.
    """
    variables, files, user = host.variables, host.files, job_user(host)
    is_nameless = user.user == str(user.euid) and user.euid not in user_names(files)
    system_home = home_of(files, user.euid) or (None if is_nameless else user.home)
    yield Facts({"uid": user.euid, "name": None if is_nameless else user.user, "home": variables.get("HOME")})
    if is_nameless:
        assignment = next((f"{name}={variables[name]}" for name in NAMES if variables.get(name)), "")
        text = _(
            "the user id {uid} has no name on this machine, and USER is not set: getpass.getuser() fails"
        )
        if assignment:
            text = _(
                "the user id {uid} has no name on this machine; programs that read {told} are not affected"
            )
        yield Finding(
            "identity.no-passwd-entry",
            text.format(uid=user.euid, told=assignment),
            severity=INFO if assignment else WARNING,
            action=Action.CONFIG,
            fix=None if assignment else _export_fix("USER", str(user.euid), ""),
        )
    yield from _judge_home(host, user, variables.get("HOME", ""), system_home)


def _judge_home(host: Host, user: Identity, home: str, system_home: Optional[str]) -> Iterator[Finding]:
    """Judge HOME. `system_home`: the home in the user database, None if it has none."""
    is_root = user.is_root
    if not home:
        text = _("HOME is not set, and the system has no home for this user")
        if system_home:
            text = _("HOME is not set; programs that ask the system get {home}")
        yield _finding(
            "identity.home-unset",
            INFO if system_home else WARNING,
            text.format(home=system_home),
            home,
            system_home,
        )
        return
    try:
        entry = host.files.stat(home) if home.startswith("/") else None
    except CannotTell as error:
        # A home that is gone or whose server is silent is a finding; any other error makes the result
        # unknown.
        if not (has_ended(error) or isinstance(error, Silent)):
            raise
        text = _("HOME is {home}, which cannot be used: {why}", home=home, why=error.reason)
        yield _finding(
            "identity.home-not-writable", WARNING, text, home, system_home if system_home != home else None
        )
        return
    better = None
    if system_home and system_home != home:
        place = host.files.stat(system_home)
        better = system_home if place is not None and place.is_dir and user.may_write(place) else None
    if entry is None or not entry.is_dir:
        text = _("HOME is {home}, which does not exist or is not a folder")
        # root can create the folder.
        severity = INFO if is_root and entry is None else WARNING
        yield _finding("identity.home-missing", severity, text.format(home=home), home, better)
    elif not user.may_write(entry):
        text = _("HOME is {home}, which this user cannot write to: it belongs to {owner}, mode {mode:04o}")
        words = {"owner": _owner(host, entry.uid), "mode": entry.permissions}
        message = text.format(home=home, **words)
        yield _finding("identity.home-not-writable", WARNING, message, home, better)
    elif entry.uid not in (0, user.euid):
        text = _(
            "HOME is {home}, which belongs to {owner}; files that this job writes there belong to the "
            "job's user"
        )
        message = text.format(home=home, owner=_owner(host, entry.uid))
        yield _finding("identity.home-of-another", INFO, message, home, better)


def _owner(host: Host, uid: int) -> str:
    return user_names(host.files).get(uid, str(uid))


def _finding(code: str, severity: Severity, text: str, home: str, better: Optional[str]) -> Finding:
    return Finding(
        code,
        text,
        severity=severity,
        evidence=(f"HOME={home}",) if home else (),
        action=Action.CONFIG,
        fix=_export_fix("HOME", better, home) if better else None,
    )


def _export_fix(name: str, value: str, before: str) -> Fix:
    return Fix(
        _("set {name} to {value}", name=name, value=value),
        steps=(Export(name, value),),
        undo=Export(name, before).lines() if before else (f"unset {name}",),
        risk=Risk.MANUAL,
        needs_root=False,
    )
