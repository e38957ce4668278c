"""Runs the command on the nodes over ssh, with ClusterShell's fanout, timeouts and tree of gateways."""

from __future__ import annotations

from typing import Any, Callable

from npudoctor.fixing.steps.shell import quote
from npudoctor.fleet.answers import ask_all
from npudoctor.fleet.gathering import Gathering
from npudoctor.fleet.programs import find_trusted_program
from npudoctor.fleet.remote import remote_line

# BatchMode: nobody can answer a prompt for a password or a new host key, so that ssh must fail with a reason.
# ServerAlive: a dead connection is noticed after 15 seconds.
_OPTIONS = "-oBatchMode=yes -oServerAliveInterval=5 -oServerAliveCountMax=3 -oForwardX11=no -oForwardAgent=no"


def gather(gathering: Gathering, turn: Callable[[], None]) -> None:
    """Ask all nodes as `ask_all` does."""
    request = gathering.request
    program = quote(find_trusted_program("ssh"))

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
