"""What all engines share: ClusterShell starts one program for each node, and what these say is handed on."""

from __future__ import annotations

from typing import Any, Callable, Optional

from npudoctor.core.optional import load
from npudoctor.fleet.gathering import Gathering

EventHandler: Any = load("ClusterShell.Event").EventHandler
task_self: Any = load("ClusterShell.Task").task_self

TURN = 1.0  # seconds between two looks at the progress


class Answers(EventHandler):  # type: ignore[misc]
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
        message = self._gathering.next_message()
        if message:
            self.worker.write(message)
        elif message is not None:
            self.worker.set_write_eof()
        if not self._gathering.awaited:
            self.worker.abort()


def ask_all(gathering: Gathering, turn: Callable[[], None], start: Callable[[Any, Answers], Any]) -> None:
    """Ask all nodes, and return when each has answered or had its time. `turn` is called about once a second.

    `start` schedules the worker that reaches them: it gets the task and the handler. Whatever ends it early,
    as Ctrl-C, ends the connections, and so what runs on the nodes.
    """
    request = gathering.request
    task = task_self()
    for stream in ("stdout_msgtree", "stderr_msgtree"):
        task.set_default(stream, False)
    task.set_info("fanout", request.fanout)
    task.set_info("connect_timeout", request.connect_seconds)
    handler = Answers(gathering, turn)
    task.timer(TURN, interval=TURN, handler=handler, autoclose=True)
    handler.worker = start(task, handler)
    if request.carried:
        handler.worker.write(request.carried)
    try:
        task.run()
    except BaseException as error:
        no_route = isinstance(
            error, load("ClusterShell.Propagation").RouteResolvingError
        )  # of a gateway lost
        for node in gathering.left if no_route else ():
            gathering.end(node, why=str(error)[:200])
        gathering.stop()
        task.abort(kill=True)
        if not no_route:
            raise
    for node in gathering.left:
        gathering.end(node, timed_out=True)
