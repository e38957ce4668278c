"""Options that choose what is examined: --env-of and --source (variables), --user and --job (leftovers)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Optional

from npudoctor.cli.arguments.paths import resolve_script
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


class ExaminedEnvironment(NamedTuple):
    """The variables to examine. `pid`: the process that has them, 0 when they are not of a process.

    `foreign`: another user set them, so that programs run with them only as `account`, that user's account.
    """

    variables: Mapping[str, str]
    pid: int = 0
    foreign: bool = False
    account: Optional[Account] = None


def examined_variables(
    flags: Mapping[str, object], variables: Mapping[str, str], files: Files, *, as_root: bool, seconds: float
) -> ExaminedEnvironment:
    """The variables that the options choose; raises UsageError when they cannot be read.

    `seconds`: how long the script of --source may take.
    """
    given_options = [
        option
        for option in ("--env-of", "--source", "--root")
        if flags.get(option[2:].replace("-", "_")) is not None
    ]
    if len(given_options) > 1:
        raise UsageError(
            _("{one} and {other} cannot be used together", one=given_options[0], other=given_options[1])
        )
    try:
        if "--env-of" in given_options:
            value = str(flags["env_of"])
            digits = value if value.isascii() and value.isdecimal() and len(value) <= LONGEST_PID else "0"
            pid = int(digits)
            if not pid:
                raise UsageError(_("{option}: {value!r} is not a process id", option="--env-of", value=value))
            is_foreign = as_root and not is_owned_by_root(files.disk, pid)
            account = account_of_process(files.disk, pid)
            variables = read_process_variables(files.disk, pid)
            # Read twice: the process may have ended meanwhile, and another one may have got its pid.
            is_same_process = account == account_of_process(files.disk, pid)
            return ExaminedEnvironment(
                variables, pid, is_foreign, account if as_root and is_same_process else None
            )
        if "--source" in given_options:
            path = resolve_script(flags["source"], files)
            commands = Commands(files, as_root=as_root, may_block=files.disk.may_block, variables=variables)
            sourced = read_script_variables(commands, path, variables, seconds)
            for note in sourced.notes:
                complain(f"--source: {note}")
            return ExaminedEnvironment(sourced.variables)
    except CannotTell as error:
        raise UsageError(f"{given_options[0]}: {error.reason}") from error
    return ExaminedEnvironment(variables)


LONGEST = 10  # digits of a job id, and of the index of an array task


def parse_user(value: object) -> Optional[str]:
    """The user of --user, a name or a number; raises UsageError when there is no such user."""
    if value is None:
        return None
    from npudoctor.host.users.identity import user_id

    name = str(value)
    if "\0" in name or user_id(name) is None:
        raise UsageError(_("{option}: user {name} does not exist", option="--user", name=name or "''"))
    return name


def parse_account(value: object) -> Optional[Account]:
    """The account of --as-user; raises UsageError for an unknown user, and for another one without root."""
    if value is None:
        return None
    from npudoctor.host.users.identity import account_of, current_identity

    account = account_of(str(value))
    if account is None:
        raise UsageError(
            _("{option}: user {name} does not exist", option="--as-user", name=str(value) or "''")
        )
    if current_identity().is_root:
        return account
    if account.uid != os.geteuid():
        raise UsageError(_("{option}: only root can start processes as another user", option="--as-user"))
    return None  # the user himself: programs run as him anyway


def parse_job(value: object) -> Optional[str]:
    """The Slurm job of --job, `JOB` or `JOB_TASK` of an array; raises UsageError for anything else."""
    if value is None:
        return None
    number, underline, task = str(value).partition("_")
    parts = (number, task) if underline else (number,)
    if not all(part.isascii() and part.isdecimal() and len(part) <= LONGEST for part in parts):
        raise UsageError(_("{option}: {value!r} is not a Slurm job id", option="--job", value=str(value)))
    return str(value)
