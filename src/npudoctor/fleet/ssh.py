"""Asks nodes over ssh, by ClusterShell: its fanout, its time-outs, its tree."""

from __future__ import annotations

from typing import Any, Callable, Optional

from ClusterShell.Event import EventHandler
from ClusterShell.Task import task_self

from npudoctor.fixing.steps.shell import quote
from npudoctor.fleet.gathering import Gathering
from npudoctor.fleet.programs import trusted_program
from npudoctor.fleet.remote import remote_line

# Nobody is there who could answer a question. A host key that is not known is a reason, and never a question.
_OPTIONS = "-oBatchMode=yes -oServerAliveInterval=5 -oServerAliveCountMax=3 -oForwardX11=no -oForwardAgent=no"
TURN = 1.0  # seconds between two looks at the progress


class _Answers(EventHandler):  # type: ignore[misc]
    """Hands on what ClusterShell tells; it keeps nothing itself, as that would be all that nodes say."""

    def __init__(self, gathering: Gathering, turn: Callable[[], None]) -> None:
        self._gathering, self._turn = gathering, turn
        self.worker: Any = None

    def ev_pickup(self, worker: Any, node: str) -> None:
        self._gathering.begin(node)

    def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:
        if sname == "stdout":
            self._gathering.hear(node, msg)
            self._tell()
        else:
            self._gathering.frame(node).noise(msg)

    def ev_hup(self, worker: Any, node: str, rc: Optional[int]) -> None:
        self._gathering.end(node, rc)
        self._tell()

    def ev_close(self, worker: Any, timedout: bool) -> None:
        for node in worker.iter_keys_timeout() if timedout else ():
            self._gathering.end(str(node), timed_out=True)

    def ev_timer(self, timer: Any) -> None:
        self._tell()
        self._turn()

    def _tell(self) -> None:
        if not self._gathering.converses:
            return
        told = self._gathering.told()
        if told:
            self.worker.write(told)
        elif told is not None:
            self.worker.set_write_eof()
        if not self._gathering.awaited:
            self.worker.abort()


def gather(gathering: Gathering, turn: Callable[[], None]) -> None:
    """Ask all nodes, and return when each has answered or had its time. `turn` is called about once a second.

    Whatever ends it early, as Ctrl-C, ends the connections, and so what runs on the nodes.
    """
    request = gathering.request
    task = task_self()
    task.set_info("ssh_path", quote(trusted_program("ssh")))
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
    handler.worker = task.shell(
        remote_line(request, gathering.mark, talking=gathering.converses),
        nodes=",".join(request.nodes),
        handler=handler,
        timeout=request.seconds,
        stderr=True,
        tree=request.tree is not None,
    )
    if request.carried:
        handler.worker.write(request.carried)
    try:
        task.run()
    except BaseException:
        gathering.stop()
        task.abort(kill=True)
        raise
    for node in gathering.left:
        gathering.end(node, timed_out=True)
