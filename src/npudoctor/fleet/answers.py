"""What the ssh and Slurm engines share: runs one program per node by ClusterShell, passes its output on."""

from __future__ import annotations

from typing import Any, Callable, Optional

from npudoctor.core.optional import load
from npudoctor.fleet.gathering import Gathering

EventHandler: Any = load("ClusterShell.Event").EventHandler
task_self: Any = load("ClusterShell.Task").task_self

TURN = 1.0  # seconds between two updates of the progress


class GatheringHandler(EventHandler):  # type: ignore[misc]
    """Passes the events of ClusterShell to a Gathering. It stores no output itself: nodes may print any
    amount."""

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
            self._gathering.frame(node).add_noise(msg)

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
        if not self._gathering.is_waiting:
            self.worker.abort()


def ask_all(
    gathering: Gathering, turn: Callable[[], None], start: Callable[[Any, GatheringHandler], Any]
) -> None:
    """Ask all nodes; return when each has answered or timed out. `turn` is called about once a second.

    `start` gets the task and the handler, schedules the worker that reaches the nodes, and returns it. An
    exception (Ctrl-C) closes the connections, which ends the commands on the nodes, and is raised again.
    """
    request = gathering.request
    task = task_self()
    # By default ClusterShell keeps all output of all nodes in its message trees until the task ends.
    for stream in ("stdout_msgtree", "stderr_msgtree"):
        task.set_default(stream, False)
    task.set_info("fanout", request.fanout)
    task.set_info("connect_timeout", request.connect_seconds)
    handler = GatheringHandler(gathering, turn)
    # autoclose: the timer does not keep the task running once the worker is done.
    task.timer(TURN, interval=TURN, handler=handler, autoclose=True)
    handler.worker = start(task, handler)
    if request.carried:
        handler.worker.write(request.carried)
    try:
        task.run()
    except BaseException as error:
        # ClusterShell raises this out of the event loop when a gateway of --tree is lost: the nodes behind it
        # are reported with that reason, and the answers of all others still count.
        no_route = isinstance(error, load("ClusterShell.Propagation").RouteResolvingError)
        for node in gathering.pending_nodes if no_route else ():
            gathering.end(node, why=str(error)[:200])
        gathering.stop()
        task.abort(kill=True)
        if not no_route:
            raise
    for node in gathering.pending_nodes:
        gathering.end(node, timed_out=True)
