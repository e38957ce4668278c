"""Whose things are looked at: --env-of and --source (variables), --user and --job (leftovers)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Optional

from npudoctor.cli.arguments.paths import script
from npudoctor.cli.config import UsageError
from npudoctor.cli.terminal.output import complain
from npudoctor.core.messages import _
from npudoctor.host import CannotTell
from npudoctor.host.fs.files import Files
from npudoctor.host.process.commands import Commands
from npudoctor.host.process.examined_variables import (
    account_of_process,
    is_owned_by_root,
    read_process_variables,
    read_script_variables,
)

if TYPE_CHECKING:
    from npudoctor.host.users.identity import Account

LONGEST_PID = 10  # digits


class Examined(NamedTuple):
    """The variables to judge. `pid`: whose they are, 0 for nobody's. `foreign`: set by somebody whom the
    user of this run need not trust, so that nothing is run with them but as this `account`, which is his."""

    variables: Mapping[str, str]
    pid: int = 0
    foreign: bool = False
    account: Optional[Account] = None


def examined_variables(
    flags: Mapping[str, object], variables: Mapping[str, str], files: Files, *, as_root: bool, seconds: float
) -> Examined:
    """The variables that the options ask for; UsageError when they cannot be read."""
    named = [
        option
        for option in ("--env-of", "--source", "--root")
        if flags.get(option[2:].replace("-", "_")) is not None
    ]
    if len(named) > 1:
        raise UsageError(_("{one} and {other} cannot be used together", one=named[0], other=named[1]))
    try:
        if "--env-of" in named:
            value = str(flags["env_of"])
            digits = value if value.isascii() and value.isdecimal() and len(value) <= LONGEST_PID else "0"
            pid = int(digits)
            if not pid:
                raise UsageError(_("{option}: {value!r} is not a process id", option="--env-of", value=value))
            foreign = as_root and not is_owned_by_root(files.disk, pid)
            account = account_of_process(files.disk, pid)
            variables = read_process_variables(files.disk, pid)
            # No other process that got this pid meanwhile lends its variables to this user.
            same = account == account_of_process(files.disk, pid)
            return Examined(variables, pid, foreign, account if as_root and same else None)
        if "--source" in named:
            path = script(flags["source"], files)
            commands = Commands(files, as_root=as_root, may_block=files.disk.may_block, variables=variables)
            left = read_script_variables(commands, path, variables, seconds)
            for note in left.notes:
                complain(f"--source: {note}")
            return Examined(left.variables)
    except CannotTell as error:
        raise UsageError(f"{named[0]}: {error.reason}") from error
    return Examined(variables)


LONGEST = 10  # digits of a job id, and of a task's number in an array


def user_named(value: object) -> Optional[str]:
    """The user of --user, by name or number; UsageError for an unknown user."""
    if value is None:
        return None
    from npudoctor.host.users.identity import user_id

    name = str(value)
    if "\0" in name or user_id(name) is None:
        raise UsageError(_("{option}: there is no user {name}", option="--user", name=name or "''"))
    return name


def account_named(value: object) -> Optional[Account]:
    """The user of --as-user; UsageError for an unknown one, and where another is not root's to be."""
    if value is None:
        return None
    from npudoctor.host.users.identity import account_of, current_identity

    account = account_of(str(value))
    if account is None:
        raise UsageError(_("{option}: there is no user {name}", option="--as-user", name=str(value) or "''"))
    if current_identity().is_root:
        return account
    if account.uid != os.geteuid():
        raise UsageError(_("{option}: only root can start processes as another user", option="--as-user"))
    return None  # what is started is his already


def job_named(value: object) -> Optional[str]:
    """The Slurm job of --job: a number, or JOB_TASK of an array; UsageError for anything else."""
    if value is None:
        return None
    number, underline, task = str(value).partition("_")
    parts = (number, task) if underline else (number,)
    if not all(part.isascii() and part.isdecimal() and len(part) <= LONGEST for part in parts):
        raise UsageError(_("{option}: {value!r} is not a Slurm job id", option="--job", value=str(value)))
    return str(value)
