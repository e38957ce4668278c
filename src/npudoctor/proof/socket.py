"""Whether the socket file of a cache server is dead: nobody listens, nobody could be starting."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.trust.rule import why_not_entry
from npudoctor.facts.leftovers.cache_server import SocketFile
from npudoctor.host.fs.walk import Parent
from npudoctor.host.network.sockets import Listener
from npudoctor.proof.snapshot import YOUNG, LivingServers, ServerSnapshot


class SocketLife(enum.Enum):
    """Whether a socket file belongs to a living server, is proven dead, or neither is certain."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"
    NO_SOCKET = "no socket"


@dataclass(frozen=True)
class SocketState:
    """A socket file and its state; `why`: what prevented calling it dead.

    `ready_in`: the seconds after which it can be judged, where it was only too young.
    """

    file: SocketFile
    state: SocketLife
    why: str = ""
    ready_in: float = 0.0


def judge_socket(snapshot: ServerSnapshot, socket_file: SocketFile) -> SocketState:
    """Judge a socket file. Every rule must hold for DEAD; the first that does not is named."""
    if not socket_file.entry.is_socket:
        return SocketState(socket_file, SocketLife.NO_SOCKET, _("it is not a socket"))
    answers = snapshot.answers.get(socket_file.path, ())
    if Listener.ALIVE in answers:
        return SocketState(socket_file, SocketLife.ALIVE, _("a server answers"))
    why = _first_doubt(snapshot, socket_file, answers)
    if why is None:
        return SocketState(socket_file, SocketLife.DEAD)
    seconds_left = YOUNG - _age_seconds(snapshot, socket_file)
    # One of the future was made by another clock: nobody knows when that is over.
    return SocketState(
        socket_file, SocketLife.UNKNOWN, why, seconds_left if 0 <= seconds_left <= YOUNG else 0.0
    )


def _age_seconds(snapshot: ServerSnapshot, socket_file: SocketFile) -> float:
    return snapshot.now - socket_file.entry.mtime_ns / 1e9


def _first_doubt(
    snapshot: ServerSnapshot, socket_file: SocketFile, answers: Sequence[Listener]
) -> Optional[str]:
    """The first rule that does not hold, in words; None when all do."""
    if _age_seconds(snapshot, socket_file) <= YOUNG:
        return _("it is younger than {seconds:g} s: a server may be starting", seconds=YOUNG)
    # A server that is starting is bound before it listens, and refuses, too: hence twice.
    if list(answers) != [Listener.REFUSED, Listener.REFUSED]:
        return _("connect() did not confirm twice that nobody is listening")
    # In another network namespace a living server has no line there: that alone proves nothing.
    if snapshot.listed & {socket_file.path, socket_file.original}:
        return _("/proc/net/unix lists it")
    if not snapshot.host.processes.is_own_namespace():
        return _("/proc shows a pid namespace other than npudoctor's")
    # Anybody may give a file such a name.
    if socket_file.parked and not is_recorded(snapshot, socket_file):
        return _(
            "its name looks like that of an interrupted removal, but no journal of npudoctor records one"
        )
    return serving_process(snapshot.living, socket_file.port) or why_untrusted(
        socket_file.parents, socket_file.entry.uid, snapshot.host.identity.euid
    )


def serving_process(living: LivingServers, port: int) -> Optional[str]:
    """Which process may serve this port; None when certainly none does. A process that hides its port may."""
    for server in living.servers:
        # None: its arguments do not say the port.
        if server.port in (port, None):
            return _("process {pid} serves this port", pid=server.pid)
    if living.opaque:
        pids = ", ".join(map(str, living.opaque[:5]))
        return _("these processes cannot be read: {pids}", pids=pids)
    return None


def is_recorded(snapshot: ServerSnapshot, socket_file: SocketFile) -> bool:
    """Return whether our journal says that a removal of ours renamed this very file."""
    entry = socket_file.entry
    return any(
        record.step.get("path") in (socket_file.original, socket_file.path)
        and [record.step.get(name) for name in ("device", "inode", "mtime_ns")]
        == [entry.dev, entry.ino, entry.mtime_ns]
        for record in snapshot.host.records.steps_of_kind("RemoveSocket")
    )


def was_displaced(snapshot: ServerSnapshot, socket_file: SocketFile) -> bool:
    """Return whether a removal of ours, which was killed, renamed a file of this name by our journal: perhaps
    another file than the one it was to remove, when a server had just started there.
    """
    return any(
        record.step.get("path") == socket_file.original
        for record in snapshot.host.records.steps_of_kind("RemoveSocket")
    )


def why_untrusted(parents: Sequence[Parent], owner: int, euid: int) -> Optional[str]:
    """Why the way to an entry of `owner` cannot be trusted; None when it can.

    Every folder must be the owner's or root's. Below one that others may write to without a sticky bit, only
    what is our own is touched: anybody could have put the rest there.
    """
    for index, parent in enumerate(parents):
        below = parents[index + 1].uid if index + 1 < len(parents) else owner
        mode = parent.mode if below != euid else parent.mode & ~0o022
        why = why_not_entry(parent.path, parent.uid, mode, (0, owner))
        if why:
            return why
    return None
