"""Asks nodes over ssh, by ClusterShell: its fanout, its time-outs, its tree."""

from __future__ import annotations

from typing import Any, Callable, Optional

from ClusterShell.Event import EventHandler
from ClusterShell.Task import task_self

from npudoctor.fleet.gathering import Gathering
from npudoctor.fleet.remote import remote_line

# Nobody is there who could answer a question. A host key that is not known is a reason, and never a question.
_OPTIONS = "-oBatchMode=yes -oServerAliveInterval=5 -oServerAliveCountMax=3 -oForwardX11=no -oForwardAgent=no"
TURN = 1.0  # seconds between two looks at the progress


class _Answers(EventHandler):  # type: ignore[misc]
    """Hands on what ClusterShell tells; it keeps nothing itself, as that would be all that nodes say."""

    def __init__(self, gathering: Gathering, turn: Callable[[], None]) -> None:
        self._gathering, self._turn = gathering, turn
        self._codes: dict[str, Optional[int]] = {}

    def ev_pickup(self, worker: Any, node: str) -> None:
        self._gathering.begin(node)

    def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
        frame = self._gathering.frame(node)
        if sname == "stdout":
            frame.add(msg)
        else:
            frame.noise(msg)

    def ev_hup(self, worker: Any, node: str, rc: Optional[int]) -> None:
        self._gathering.end(node, rc)

    def ev_close(self, worker: Any, timedout: bool) -> None:
        for node in worker.iter_keys_timeout() if timedout else ():
            self._gathering.end(str(node), timed_out=True)

    def ev_timer(self, timer: Any) -> None:
        self._turn()


def gather(gathering: Gathering, turn: Callable[[], None]) -> None:
    """Ask all nodes, and return when each has answered or had its time. `turn` is called about once a second.

    Whatever ends it early, as Ctrl-C, ends the connections, and so what runs on the nodes.
    """
    request = gathering.request
    task = task_self()
    for stream in ("stdout_msgtree", "stderr_msgtree"):
        task.set_default(stream, False)
    task.set_info("ssh_options", _OPTIONS)
    task.set_info("fanout", request.fanout)
    task.set_info("connect_timeout", request.connect_seconds)
    if request.user is not None:
        task.set_info("ssh_user", request.user)
    if request.tree is not None:
        task.load_topology(request.tree)
    handler = _Answers(gathering, turn)
    task.timer(TURN, interval=TURN, handler=handler, autoclose=True)
    task.shell(
        remote_line(request.command, gathering.mark),
        nodes=",".join(request.nodes),
        handler=handler,
        timeout=request.seconds,
        stderr=True,
        tree=request.tree is not None,
    )
    try:
        task.run()
    except BaseException:
        gathering.stop()
        task.abort(kill=True)
        raise
