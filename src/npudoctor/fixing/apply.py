"""The only code that changes a machine: takes one step, and says how it ended."""

from __future__ import annotations

from typing import Optional

from npudoctor.fixing.ending import end_processes
from npudoctor.fixing.outcome import Ending, Failed, Gone, Observer, Outcome, Refused, changing
from npudoctor.fixing.removal import remove_shared_memory, remove_socket, restore_socket
from npudoctor.fixing.spilled import remove_files
from npudoctor.fixing.steps import (
    Command,
    Export,
    RemoveFiles,
    RemoveSharedMemory,
    RemoveSocket,
    RemoveUnused,
    RestoreSocket,
    SignalProcess,
)
from npudoctor.fixing.temporary import remove_temporary
from npudoctor.fixing.unused import remove_unused
from npudoctor.host import CannotTell, Host
from npudoctor.host.temporary import library_of
from npudoctor.messages import _, strerror
from npudoctor.model import Step

COMMAND_SECONDS = 600.0


def apply_step(step: Step, host: Host, at: Observer = lambda name: None) -> Outcome:
    """Do it, if its guard still holds on this freshly looked at host."""
    forbidden = why_forbidden(step, host)
    if forbidden:
        return Outcome(Ending.REFUSED, forbidden)
    watch = Watch(at)
    try:
        _take(step, host, watch)
    except Gone:
        return Outcome(Ending.ALREADY, _("it is gone already"), watch.changed)
    except Refused as refusal:
        return Outcome(Ending.REFUSED, str(refusal), watch.changed)
    except CannotTell as unknown:
        return Outcome(Ending.REFUSED, unknown.reason, watch.changed)
    except Failed as failure:
        return Outcome(Ending.FAILED, str(failure), watch.changed)
    except OSError as error:
        why = strerror(error.errno) if error.errno else str(error)
        return Outcome(Ending.FAILED, why, watch.changed)
    return Outcome(Ending.APPLIED, changed=True)


class Watch:
    """Passes on what an observer is told, and counts the changes that were not taken back.

    A program that failed is not counted: what it did before is not known.
    """

    def __init__(self, at: Observer) -> None:
        self._at = at
        self._net = 0

    def __call__(self, name: str) -> None:
        if name.startswith("after put back "):
            self._net -= 1
        elif name.startswith("after ") and not name.startswith("after run "):
            self._net += 1
        self._at(name)

    @property
    def changed(self) -> bool:
        """Whether something is not as it was."""
        return self._net > 0


def why_forbidden(step: Step, host: Host) -> Optional[str]:
    """Why this user may not take the step whatever its guard says; None when he may."""
    if isinstance(step, Export):
        return _("no program can change the shell that called it: type the line shown here in that shell")
    owner = getattr(step, "owner", None)
    if owner is None or host.identity.may_remove(owner):
        return None
    from npudoctor.host.identity import user_name

    name = user_name(owner)
    if host.identity.is_root:
        return _("it belongs to {user}: add --owner {user} if it is to go").format(user=name)
    return _("it belongs to {user}: only {user}, or root with --owner {user}, may remove it").format(
        user=name
    )


def _take(step: Step, host: Host, at: Observer) -> None:
    if isinstance(step, RemoveSharedMemory):
        remove_shared_memory(step, host, at)
    elif isinstance(step, RemoveSocket):
        remove_socket(step, host, at)
    elif isinstance(step, RestoreSocket):
        restore_socket(step, host, at)
    elif isinstance(step, RemoveFiles):
        made_by = library_of(step.directory.rpartition("/")[2])
        (remove_temporary if made_by else remove_files)(step, host, at)
    elif isinstance(step, RemoveUnused):
        remove_unused(step, host, at)
    elif isinstance(step, SignalProcess):
        end_processes(step, host, at)
    elif isinstance(step, Command):
        _run(step, host, at)
    else:
        raise Refused(_("this kind of step is not known"))


def _run(step: Command, host: Host, at: Observer) -> None:
    with changing(at, f"run {step.argv[0]}"):
        answer = host.commands.run(step.argv, timeout=COMMAND_SECONDS)
    if not answer.ok:
        said = (answer.stderr.strip() or answer.stdout.strip()).splitlines()[-1:] or [answer.ended]
        raise Failed(said[0])
