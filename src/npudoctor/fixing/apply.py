"""The only code that changes a machine: takes one step, and says how it ended."""

from __future__ import annotations

import os
from typing import Optional

from npudoctor.fixing.outcome import Ending, Gone, Observer, Outcome, Refused
from npudoctor.fixing.removal import remove_files, remove_shared_memory, remove_socket, restore_socket
from npudoctor.fixing.steps import (
    Command,
    Export,
    RemoveFiles,
    RemoveSharedMemory,
    RemoveSocket,
    RestoreSocket,
)
from npudoctor.host import CannotTell, Host
from npudoctor.messages import _
from npudoctor.model import Step

COMMAND_SECONDS = 600.0


def apply_step(step: Step, host: Host, at: Observer = lambda name: None) -> Outcome:
    """Do it, if its guard still holds on this freshly looked at host."""
    forbidden = why_forbidden(step, host)
    if forbidden:
        return Outcome(Ending.REFUSED, forbidden)
    try:
        _take(step, host, at)
    except Gone:
        return Outcome(Ending.ALREADY, _("it is gone already"))
    except Refused as refusal:
        return Outcome(Ending.REFUSED, str(refusal))
    except CannotTell as unknown:
        return Outcome(Ending.REFUSED, unknown.reason)
    except OSError as error:
        return Outcome(Ending.FAILED, os.strerror(error.errno) if error.errno else str(error))
    return Outcome(Ending.APPLIED)


def why_forbidden(step: Step, host: Host) -> Optional[str]:
    """Why this user may not take the step whatever its guard says; None when he may."""
    if isinstance(step, Export):
        return _('no program can change the shell it was called from: eval "$(npudoctor env)"')
    owner = getattr(step, "owner", None)
    if owner is None or host.identity.may_remove(owner):
        return None
    from npudoctor.host.identity import user_name

    name = user_name(owner)
    if host.identity.is_root:
        return _("it belongs to {user}: add --owner {user} if it is to go").format(user=name)
    return _("it belongs to {user}: only {user}, or root with --owner {user}, may remove it").format(user=name)


def _take(step: Step, host: Host, at: Observer) -> None:
    if isinstance(step, RemoveSharedMemory):
        remove_shared_memory(step, host, at)
    elif isinstance(step, RemoveSocket):
        remove_socket(step, host, at)
    elif isinstance(step, RestoreSocket):
        restore_socket(step, host, at)
    elif isinstance(step, RemoveFiles):
        remove_files(step, host, at)
    elif isinstance(step, Command):
        _run(step, host, at)
    else:
        raise Refused(_("this kind of step is not known"))


def _run(step: Command, host: Host, at: Observer) -> None:
    at(f"before run {step.argv[0]}")
    answer = host.commands.run(step.argv, timeout=COMMAND_SECONDS)
    at(f"after run {step.argv[0]}")
    if not answer.ok:
        said = (answer.stderr.strip() or answer.stdout.strip()).splitlines()[-1:] or [answer.ended]
        raise OSError(None, said[0])
