"""Reads the variables to examine: those of a running process, or those that a script would set."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from contextlib import suppress
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _, strerror
from npudoctor.host.fs.files import Disk
from npudoctor.host.process.commands import CommandResult, Commands
from npudoctor.host.process.processes import parse_uids
from npudoctor.host.users.identity import Account

BASH = "/bin/bash"
ENVIRON_LIMIT = 4 << 20
# Descriptor 3 keeps our pipe for the variables alone: what the script prints goes to standard error, and a
# process that it leaves running does not hold 3 open (3>&-). `shift`: the script is given no arguments.
SCRIPT = (
    "npudoctor_script=$1; shift; exec 3>&1 1>&2; "
    'source "$npudoctor_script" 3>&-; npudoctor_status=$?; '
    '/usr/bin/env -0 >&3; exit "$npudoctor_status"'
)
# Variables that bash sets itself, whatever the script does.
SET_BY_SHELL = ("_", "SHLVL", "PWD", "OLDPWD")
# Variables that make bash run something before the script, set its options, or import functions (bash(1)).
RUN_BEFORE_SCRIPT = ("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_FUNC_")


@dataclass(frozen=True)
class ScriptVariables:
    """The variables after a script; `notes`: sentences on why they may not be complete."""

    variables: Mapping[str, str]
    notes: tuple[str, ...] = ()


def parse_environ(content: bytes) -> dict[str, str]:
    """Parse NUL-separated NAME=value; the first entry of a name counts, as for getenv(3)."""
    variables: dict[str, str] = {}
    for entry in content.decode("utf-8", "surrogateescape").split("\0"):
        name, equals, value = entry.partition("=")
        if equals and name:
            variables.setdefault(name, value)
    return variables


def read_process_variables(disk: Disk, pid: int) -> dict[str, str]:
    """The variables with which a process was started; CannotTell if they cannot be read."""
    try:
        content = disk.read(f"/proc/{pid}/environ", ENVIRON_LIMIT)
    except OSError as error:
        has_ended = error.errno in (errno.ENOENT, errno.ESRCH)
        if not has_ended:
            # For a zombie the kernel says EACCES to all but root: it has no memory whose owner counts.
            with suppress(OSError):
                stat = disk.read(f"/proc/{pid}/stat", 4096)
                # Z: zombie, X: dead.
                has_ended = stat.rpartition(b")")[2].split()[:1] in ([b"Z"], [b"X"])
        if has_ended:
            raise CannotTell(_("process {pid} does not exist", pid=pid)) from error
        raise CannotTell(
            _("the variables of process {pid} cannot be read: {why}", pid=pid, why=strerror(error.errno))
        ) from error
    if not content:
        raise CannotTell(_("process {pid} has no variables: it has ended or is a kernel thread", pid=pid))
    return parse_environ(content)


def account_of_process(disk: Disk, pid: int) -> Optional[Account]:
    """The account of a process, with its groups; None if its ids differ or if it has ended.

    The owner of /proc/PID does not tell: it is root for a process that may not be dumped (proc(5)).
    """
    try:
        status = disk.read(f"/proc/{pid}/status", 1 << 16)
    except OSError:
        return None
    uids, gids = parse_uids(status), parse_uids(status, b"Gid:")
    if len(uids) != 1 or len(gids) != 1:
        return None
    uid, gid = min(uids), min(gids)
    groups = tuple(sorted({gid, *parse_uids(status, b"Groups:")}))
    return Account(str(uid), uid, gid, "/", groups)


def is_owned_by_root(disk: Disk, pid: int) -> bool:
    """Whether all user ids of a process are 0."""
    account = account_of_process(disk, pid)
    return account is not None and not account.uid


def read_script_variables(
    commands: Commands, path: str, variables: Mapping[str, str], seconds: float
) -> ScriptVariables:
    """The variables of a shell that has sourced a script; CannotTell if the script ended the shell.

    A status other than 0 is only a note: that of a last line `[ -f ~/x ] && . ~/x` is no failure.
    """
    if not commands.may_run(path):
        raise CannotTell(
            _("{path} is not run as root: it or a folder above it is writable by other users", path=path)
        )
    clean_variables = {
        name: value for name, value in variables.items() if not name.startswith(RUN_BEFORE_SCRIPT)
    }
    shell_variables = commands.narrow_variables(clean_variables)
    result = commands.run(
        # --noprofile --norc: no start-up file but the script itself may set variables.
        [BASH, "--noprofile", "--norc", "-c", SCRIPT, "bash", path],
        timeout=seconds,
        variables=shell_variables,
        in_working_directory=True,
    )
    reason = _why_failed(result, seconds)
    if reason is not None:
        raise CannotTell(_("{path}: {why}", path=path, why=reason))
    variables_after = _restore_narrowed(
        parse_environ(result.stdout.encode("utf-8", "surrogateescape")), shell_variables, clean_variables
    )
    notes = []
    if result.status:
        notes.append(_("{why}; the variables it had set by then are checked", why=_describe_status(result)))
    names = clean_variables.keys() | variables_after.keys()
    if not any(
        clean_variables.get(name) != variables_after.get(name) for name in names if name not in SET_BY_SHELL
    ):
        notes.append(_("it changed no variable; a .bashrc often returns early in a non-interactive shell"))
    # bash sets both for its own commands; the caller's values are put back.
    variables_after.pop("_", None)
    variables_after.pop("SHLVL", None)
    variables_after.update((name, variables[name]) for name in ("_", "SHLVL") if name in variables)
    return ScriptVariables(variables_after, tuple(_("{path}: {why}", path=path, why=note) for note in notes))


def _restore_narrowed(
    variables_after: Mapping[str, str], shell_variables: Mapping[str, str], original: Mapping[str, str]
) -> dict[str, str]:
    """The variables after a script, with what narrow_variables dropped put back where it was."""
    restored = dict(variables_after)
    for name, value in original.items():
        narrowed_value = shell_variables.get(name, "")
        if narrowed_value == value:
            continue
        if name not in shell_variables:
            restored.setdefault(name, value)  # the script could not read it, but may have set it
        elif name in restored:
            restored[name] = restored[name].replace(narrowed_value, value, 1)
    return restored


def _why_failed(result: CommandResult, seconds: float) -> Optional[str]:
    if result.ended == "exited" and result.stdout:
        return None
    if result.ok:
        return _("it ends the shell that sources it")
    if result.ended == "timeout":
        return _("it does not finish within {seconds:g} s", seconds=seconds)
    if result.ended != "exited":
        return _("{shell} cannot be run: {why}", shell=BASH, why=result.ended)
    return _describe_status(result)


def _describe_status(result: CommandResult) -> str:
    last_line = result.stderr.strip().splitlines()[-1:]
    text = _("it exits with status {status}: {said}") if last_line else _("it exits with status {status}")
    return text.format(status=result.status, said=last_line[0] if last_line else "")
