"""Asks nodes over ssh, by ClusterShell: its fanout, its time-outs, its tree."""

from __future__ import annotations

from typing import Any, Callable

from npudoctor.fixing.steps.shell import quote
from npudoctor.fleet.answers import ask_all
from npudoctor.fleet.gathering import Gathering
from npudoctor.fleet.programs import trusted_program
from npudoctor.fleet.remote import remote_line

# Nobody is there who could answer a question. A host key that is not known is a reason, and never a question.
_OPTIONS = "-oBatchMode=yes -oServerAliveInterval=5 -oServerAliveCountMax=3 -oForwardX11=no -oForwardAgent=no"


def gather(gathering: Gathering, turn: Callable[[], None]) -> None:
    """Ask all nodes, as `ask_all` says."""
    request = gathering.request
    program = quote(trusted_program("ssh"))

    def start(task: Any, handler: Any) -> Any:
        task.set_info("ssh_path", program)
        task.set_info("ssh_options", _OPTIONS)
        if request.user is not None:
            task.set_info("ssh_user", request.user)
        if request.tree is not None:
            task.topology = request.tree
        return task.shell(
            remote_line(request, gathering.mark, talking=gathering.converses),
            nodes=",".join(request.nodes),
            handler=handler,
            timeout=request.seconds,
            stderr=True,
            tree=request.tree is not None,
        )

    ask_all(gathering, turn, start)
