"""The only code that changes a machine: takes one step, and says how it ended."""

from __future__ import annotations

from typing import Any, Callable

from npudoctor.core.messages import _, strerror
from npudoctor.core.model import Step
from npudoctor.fixing.actions.commands import delete_rule, insert_rule, remount, run_command
from npudoctor.fixing.actions.endings import ActionFailed, ActionRefused, AlreadyGone, CommandFailed
from npudoctor.fixing.actions.folders import remove_folder
from npudoctor.fixing.actions.kernel import set_kernel
from npudoctor.fixing.actions.removal import remove_shared_memory, remove_socket, restore_socket
from npudoctor.fixing.actions.signalling import end_processes
from npudoctor.fixing.actions.unused import remove_unused
from npudoctor.fixing.actions.writing import put_back, write_file
from npudoctor.fixing.outcome import ActionStatus, Observer, Outcome
from npudoctor.fixing.permission import why_forbidden
from npudoctor.fixing.steps.steps import (
    Command,
    DeleteRule,
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


def apply_step(step: Step, host: Host, at: Observer = lambda name: None) -> Outcome:
    """Take a step, if its guard still holds on this freshly read host; return how it ended. It raises none of
    our exceptions.
    """
    forbidden = why_forbidden(step, host)
    if forbidden:
        return Outcome(ActionStatus.REFUSED, forbidden)
    # By the exact class: a subclass might need another guard.
    act = _ACTS.get(type(step))
    if act is None:
        return Outcome(ActionStatus.REFUSED, _("unknown kind of step"))
    # An ending says nothing about changes that were made before it; the counter does.
    counter = ChangeCounter(at)
    try:
        act(step, host, counter)
    except AlreadyGone as ending:
        return Outcome(ActionStatus.ALREADY, str(ending) or _("it is already gone"), counter.changed)
    # What a program did before it failed is unknown.
    except CommandFailed as broken:
        return Outcome(ActionStatus.FAILED, str(broken), changed=True)
    except ActionRefused as refusal:
        return Outcome(ActionStatus.REFUSED, str(refusal), counter.changed)
    # A guard could not be evaluated: then it does not hold.
    except CannotTell as unknown:
        return Outcome(ActionStatus.REFUSED, unknown.reason, counter.changed)
    except ActionFailed as failure:
        return Outcome(ActionStatus.FAILED, str(failure), counter.changed)
    # The kernel refused it, after some of it may have been done: `changed` says so.
    except OSError as error:
        why = strerror(error.errno) if error.errno else str(error)
        return Outcome(ActionStatus.FAILED, why, counter.changed)
    return Outcome(ActionStatus.APPLIED, changed=True)


class ChangeCounter:
    """Passes events on to an observer, and counts the changes that were not taken back.

    Our own preparations are not counted, nor are programs: see CommandFailed.
    """

    # Running a program is judged by its status; folders, locks and copies of ours change nothing of the
    # user's.
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
        """Whether something differs from how it was before."""
        return self._net > 0


# Steps that are missing here are only shown, such as Export.
_ACTS: dict[type, Callable[[Any, Host, Observer], None]] = {
    RemoveSharedMemory: remove_shared_memory,
    RemoveSocket: remove_socket,
    RestoreSocket: restore_socket,
    RemoveFiles: remove_folder,
    RemoveUnused: remove_unused,
    SignalProcess: end_processes,
    WriteFile: write_file,
    PutBack: put_back,
    SetKernel: set_kernel,
    Remount: remount,
    Command: run_command,
    InsertRule: insert_rule,
    DeleteRule: delete_rule,
}
