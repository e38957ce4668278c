"""Whether the socket file of a cache server is dead: nobody listens, nobody could be starting."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Optional

from npudoctor.frozen import dataclass
from npudoctor.host.cacheserver import Parent, SocketFile
from npudoctor.host.sockets import Listener, collapse
from npudoctor.messages import _
from npudoctor.proof.scene import YOUNG, LiveServer, Scene


class State(enum.Enum):
    """What a socket file is: a living server's, proven dead, or neither can be said."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"
    NO_SOCKET = "no socket"


@dataclass(frozen=True)
class SocketState:
    """A socket file and its state; `why` says what stood against calling it dead."""

    file: SocketFile
    state: State
    why: str = ""


def judge_socket(scene: Scene, found: SocketFile) -> SocketState:
    """Every rule must hold for DEAD; the first that does not is named."""
    if not found.entry.is_socket:
        return SocketState(found, State.NO_SOCKET, _("it is no socket"))
    answers = scene.answers.get(found.path, ())
    if Listener.ALIVE in answers:
        return SocketState(found, State.ALIVE, _("a server answers"))
    server = _server_of(scene, found)
    if server is not None:
        return SocketState(
            found, State.ALIVE, _("process {pid} serves this port").format(pid=server.pid)
        )
    why = _doubt(scene, found, answers)
    return SocketState(found, State.UNKNOWN, why) if why else SocketState(found, State.DEAD)


def _doubt(scene: Scene, found: SocketFile, answers: Sequence[Listener]) -> Optional[str]:
    """The first rule that is not met, in words; None when all are."""
    if scene.now - found.entry.mtime_ns / 1e9 <= YOUNG:
        return _("it is younger than {seconds:g} s: a server may be starting").format(seconds=YOUNG)
    if list(answers) != [Listener.REFUSED, Listener.REFUSED]:
        return _("connect() did not say twice that nobody listens")
    if scene.unix_paths & {collapse(found.path), collapse(found.original)}:
        return _("/proc/net/unix lists it")
    if scene.opaque:
        pids = ", ".join(map(str, scene.opaque[:5]))
        return _("these processes cannot be read: {pids}").format(pids=pids)
    if not scene.host.processes.ours():
        return _("/proc shows another pid namespace than ours")
    return untrusted_parent(found.parents, found.entry.uid, scene.host.identity.euid)


def _server_of(scene: Scene, found: SocketFile) -> Optional[LiveServer]:
    """A living server of this port, or one that does not tell its port."""
    return next((server for server in scene.servers if server.port in (found.port, None)), None)


def untrusted_parent(parents: Sequence[Parent], owner: int, euid: int) -> Optional[str]:
    """Why the way to an entry of `owner` is not to be trusted; None when it is.

    Every folder is the owner's or root's. Below one that others may write without a sticky bit,
    only what is our own is touched: anybody could have put the rest there.
    """
    for index, parent in enumerate(parents):
        if parent.uid not in (0, owner):
            return _("{path} belongs to another user").format(path=parent.path)
        below = parents[index + 1].uid if index + 1 < len(parents) else owner
        if parent.writable_by_others and below != euid:
            return _("others may write {path}").format(path=parent.path)
    return None
