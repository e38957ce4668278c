"""Whose variables are examined: those of a running process, or those that a script would leave."""

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
# Standard output is kept apart for the variables: what the script prints goes to standard error, and what it
# leaves running holds neither. It sees no arguments, and it sees that it is sourced.
SCRIPT = (
    "npudoctor_script=$1; shift; exec 3>&1 1>&2; "
    'source "$npudoctor_script" 3>&-; npudoctor_status=$?; '
    '/usr/bin/env -0 >&3; exit "$npudoctor_status"'
)
# What a shell changes by itself.
BY_ITSELF = ("_", "SHLVL", "PWD", "OLDPWD")
# What would make bash run something else first, or change what it is.
STARTING = ("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_FUNC_")


@dataclass(frozen=True)
class ScriptVariables:
    """The variables after a script. `notes`: what a person should know who trusts them."""

    variables: Mapping[str, str]
    notes: tuple[str, ...] = ()


def parse_environ(content: bytes) -> dict[str, str]:
    """NUL-separated NAME=value as a mapping; of a name that is there twice the first counts, as in C."""
    variables: dict[str, str] = {}
    for entry in content.decode("utf-8", "surrogateescape").split("\0"):
        name, equals, value = entry.partition("=")
        if equals and name:
            variables.setdefault(name, value)
    return variables


def of_process(disk: Disk, pid: int) -> dict[str, str]:
    """The variables with which a process was started; CannotTell when they cannot be had."""
    try:
        content = disk.read(f"/proc/{pid}/environ", ENVIRON_LIMIT)
    except OSError as error:
        ended = error.errno in (errno.ENOENT, errno.ESRCH)
        if not ended:
            # Of one that has ended, and was not waited for yet, the kernel forbids it to all but root.
            with suppress(OSError):
                stat = disk.read(f"/proc/{pid}/stat", 4096)
                ended = stat.rpartition(b")")[2].split()[:1] in ([b"Z"], [b"X"])
        if ended:
            raise CannotTell(_("process {pid} does not exist", pid=pid)) from error
        raise CannotTell(
            _("the variables of process {pid} cannot be read: {why}", pid=pid, why=strerror(error.errno))
        ) from error
    if not content:
        raise CannotTell(_("process {pid} has no variables: it has ended or is a kernel thread", pid=pid))
    return parse_environ(content)


def account_of_process(disk: Disk, pid: int) -> Optional[Account]:
    """Whose process it is, with its groups; None where its ids differ or it has ended.

    The owner of its folder does not tell: /proc gives what may not be dumped to root.
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


def is_roots(disk: Disk, pid: int) -> bool:
    """Whether all its user ids are root's."""
    account = account_of_process(disk, pid)
    return account is not None and not account.uid


def after_script(
    commands: Commands, path: str, variables: Mapping[str, str], seconds: float
) -> ScriptVariables:
    """What a shell of the caller has after it sourced a script; CannotTell when the shell ended with it.

    A script may well end with a status: that of its last command, `[ -f ~/x ] && . ~/x`, is no failure.
    """
    if not commands.may_run(path):
        raise CannotTell(
            _("{path} is not run as root: it or a folder above it is writable by other users", path=path)
        )
    clean = {name: value for name, value in variables.items() if not name.startswith(STARTING)}
    started = commands.narrowed(clean)
    answer = commands.run(
        [BASH, "--noprofile", "--norc", "-c", SCRIPT, "bash", path],
        timeout=seconds,
        variables=started,
        here=True,
    )
    why = _why_failed(answer, seconds)
    if why is not None:
        raise CannotTell(_("{path}: {why}", path=path, why=why))
    left = _put_back(parse_environ(answer.stdout.encode("utf-8", "surrogateescape")), started, clean)
    notes = []
    if answer.status:
        notes.append(_("{why}; the variables it had set by then are checked", why=_status(answer)))
    names = clean.keys() | left.keys()
    if not any(clean.get(name) != left.get(name) for name in names if name not in BY_ITSELF):
        notes.append(_("it changed no variable; a .bashrc often returns early in a non-interactive shell"))
    left.pop("_", None)
    left.pop("SHLVL", None)
    left.update((name, variables[name]) for name in ("_", "SHLVL") if name in variables)
    return ScriptVariables(left, tuple(_("{path}: {why}", path=path, why=note) for note in notes))


def _put_back(
    left: Mapping[str, str], started: Mapping[str, str], before: Mapping[str, str]
) -> dict[str, str]:
    """What the script left, with what its shell was not given put back where it was."""
    widened = dict(left)
    for name, value in before.items():
        short = started.get(name, "")
        if short == value:
            continue
        if name not in started:
            widened.setdefault(name, value)  # which it could not read, but may have replaced
        elif name in widened:
            widened[name] = widened[name].replace(short, value, 1)
    return widened


def _why_failed(answer: CommandResult, seconds: float) -> Optional[str]:
    if answer.ended == "exited" and answer.stdout:
        return None
    if answer.ok:
        return _("it ends the shell that sources it")
    if answer.ended == "timeout":
        return _("it does not finish within {seconds:g} s", seconds=seconds)
    if answer.ended != "exited":
        return _("{shell} cannot be run: {why}", shell=BASH, why=answer.ended)
    return _status(answer)


def _status(answer: CommandResult) -> str:
    last_line = answer.stderr.strip().splitlines()[-1:]
    text = _("it exits with status {status}: {said}") if last_line else _("it exits with status {status}")
    return text.format(status=answer.status, said=last_line[0] if last_line else "")
