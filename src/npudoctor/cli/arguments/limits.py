"""--user and --job: to whose leftovers a run is limited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from npudoctor.cli.settings.config import UsageError
from npudoctor.core.messages import _

LONGEST = 10  # digits of a job id, and of a task's number in an array


def owner(flags: Mapping[str, object]) -> Optional[str]:
    """The user of --user, by name or number; Refused for one whom the machine does not know."""
    value = flags.get("user")
    if value is None:
        return None
    from npudoctor.host.process.identity import user_id

    name = str(value)
    if "\0" in name or user_id(name) is None:
        raise UsageError(_("{option}: there is no user {name}").format(option="--user", name=name or "''"))
    return name


def job(flags: Mapping[str, object]) -> Optional[str]:
    """The Slurm job of --job: a number, or that of an array with a task's; Refused for all else."""
    value = flags.get("job")
    if value is None:
        return None
    number, underline, task = str(value).partition("_")
    parts = (number, task) if underline else (number,)
    if not all(part.isascii() and part.isdecimal() and len(part) <= LONGEST for part in parts):
        raise UsageError(
            _("{option}: {value!r} is not a Slurm job id").format(option="--job", value=str(value))
        )
    return str(value)
