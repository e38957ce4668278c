"""The only code that changes a machine: takes one step, and says how it ended."""

from __future__ import annotations

from typing import Any, Callable, Optional

from npudoctor.core.messages import _, strerror
from npudoctor.core.model import Step
from npudoctor.facts.leftovers.temporary import library_of
from npudoctor.fixing.actions.commands import delete_rule, insert_rule, remount, run_command
from npudoctor.fixing.actions.removal import remove_shared_memory, remove_socket, restore_socket
from npudoctor.fixing.actions.signalling import end_processes
from npudoctor.fixing.actions.spilled import remove_files
from npudoctor.fixing.actions.temporary import remove_temporary
from npudoctor.fixing.actions.unused import remove_unused
from npudoctor.fixing.actions.writing import put_back, write_file
from npudoctor.fixing.outcome import ActionStatus, CommandFailed, Failed, Gone, Observer, Outcome, Refused
from npudoctor.fixing.steps.kernel import set_kernel
from npudoctor.fixing.steps.steps import (
    Command,
    DeleteRule,
    Export,
    InsertRule,
    PutBack,
    Remount,
    RemoveFiles,
    RemoveSharedMemory,
    RemoveSocket,
    RemoveUnused,
    RestoreSocket,
    SetKernel,
    SignalProcess,
    WriteFile,
)
from npudoctor.host import CannotTell, Host

# Words of a shell: no program of ours does the same for it. Of these, `npudoctor env` speaks of variables.
OF_VARIABLES = ("export", "unset", "source", ".")
OF_A_SHELL = (*OF_VARIABLES, "ulimit", "umask", "cd", "newgrp")


def apply_step(step: Step, host: Host, at: Observer = lambda name: None) -> Outcome:
    """Do it, if its guard still holds on this freshly looked at host."""
    forbidden = why_forbidden(step, host)
    if forbidden:
        return Outcome(ActionStatus.REFUSED, forbidden)
    watch = ChangeCounter(at)
    try:
        _take(step, host, watch)
    except Gone as gone:
        return Outcome(ActionStatus.ALREADY, str(gone) or _("it is already gone"), watch.changed)
    except CommandFailed as broken:
        return Outcome(ActionStatus.FAILED, str(broken), changed=True)
    except Refused as refusal:
        return Outcome(ActionStatus.REFUSED, str(refusal), watch.changed)
    except CannotTell as unknown:
        return Outcome(ActionStatus.REFUSED, unknown.reason, watch.changed)
    except Failed as failure:
        return Outcome(ActionStatus.FAILED, str(failure), watch.changed)
    except OSError as error:
        why = strerror(error.errno) if error.errno else str(error)
        return Outcome(ActionStatus.FAILED, why, watch.changed)
    return Outcome(ActionStatus.APPLIED, changed=True)


class ChangeCounter:
    """Passes on what an observer is told, and counts the changes that were not taken back.

    Not counted are our own preparations, and programs: see Broken.
    """

    _UNCOUNTED = ("after run ", "after make ", "after close ", "after keep ", "after prepare ")

    def __init__(self, at: Observer) -> None:
        self._at = at
        self._net = 0

    def __call__(self, name: str) -> None:
        if name.startswith("after put back "):
            self._net -= 1
        elif name.startswith("after ") and not name.startswith(self._UNCOUNTED):
            self._net += 1
        self._at(name)

    @property
    def changed(self) -> bool:
        """Whether something is not as it was."""
        return self._net > 0


def why_forbidden(step: Step, host: Host) -> Optional[str]:
    """Why this user may not take the step whatever its guard says; None when he may."""
    if for_a_shell(step):
        text = _("no program can change the shell that called it: type the line shown in that shell")
        if isinstance(step, Export) or (isinstance(step, Command) and step.argv[0] in OF_VARIABLES):
            text = _(
                "no program can change the shell that called it: type {line} in that shell, or the "
                "lines shown"
            )
        return text.format(line='eval "$(npudoctor env)"')
    owner = getattr(step, "owner", None)
    if owner is None or host.identity.may_remove(owner):
        return None
    from npudoctor.host.process.identity import user_name

    name = user_name(owner)
    if host.identity.is_root:
        return _("it belongs to {user}: add --owner {user} to remove it").format(user=name)
    return _("it belongs to {user}: only {user}, or root with --owner {user}, may remove it").format(
        user=name
    )


def for_a_shell(step: Step) -> bool:
    """Whether only the caller's own shell can take the step."""
    return isinstance(step, Export) or (isinstance(step, Command) and step.argv[0] in OF_A_SHELL)


def _remove_folder(step: RemoveFiles, host: Host, at: Observer) -> None:
    made_by = library_of(step.directory.rpartition("/")[2])
    (remove_temporary if made_by else remove_files)(step, host, at)


_ACTS: dict[type, Callable[[Any, Host, Observer], None]] = {
    RemoveSharedMemory: remove_shared_memory,
    RemoveSocket: remove_socket,
    RestoreSocket: restore_socket,
    RemoveFiles: _remove_folder,
    RemoveUnused: remove_unused,
    SignalProcess: end_processes,
    WriteFile: write_file,
    PutBack: put_back,
    SetKernel: lambda step, _host, at: set_kernel(step, at),
    Remount: remount,
    Command: run_command,
    InsertRule: insert_rule,
    DeleteRule: delete_rule,
}


def _take(step: Step, host: Host, at: Observer) -> None:
    act = _ACTS.get(type(step))
    if act is None:
        raise Refused(_("unknown kind of step"))
    act(step, host, at)
