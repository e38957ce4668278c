"""Which steps this user may take at all, whatever their guards say when they are taken."""

from __future__ import annotations

from typing import Optional

from npudoctor.core.messages import _
from npudoctor.core.model import Step
from npudoctor.fixing.steps.commands import Command, Export
from npudoctor.host import Host
from npudoctor.host.users.identity import user_name

# Words of a shell: no program of ours does the same for it. Of these, `npudoctor env` speaks of variables.
OF_VARIABLES = ("export", "unset", "source", ".")
OF_A_SHELL = (*OF_VARIABLES, "ulimit", "umask", "cd", "newgrp")


def why_forbidden(step: Step, host: Host) -> Optional[str]:
    """Why this user may not take the step, whatever its guard says; None when the user may."""
    if is_for_a_shell(step):
        return _("no program can change the shell that called it: in that shell, run the command shown")
    owner = getattr(step, "owner", None)
    if owner is None or host.identity.may_remove(owner):
        return None
    name = user_name(owner)
    # Root may remove it, but only for an owner that was named: --owner.
    if host.identity.is_root:
        return _("it belongs to {user}: add --owner {user} to remove it", user=name)
    return _("it belongs to {user}: only {user}, or root with --owner {user}, may remove it", user=name)


def is_of_variables(step: Step) -> bool:
    """Return whether the step changes nothing but the variables of a shell."""
    return isinstance(step, Export) or (isinstance(step, Command) and step.argv[0] in OF_VARIABLES)


def is_for_a_shell(step: Step) -> bool:
    """Return whether only the caller's own shell can take the step."""
    return isinstance(step, Export) or (isinstance(step, Command) and step.argv[0] in OF_A_SHELL)
