"""Who has a TCP socket open: the processes, as far as our rights show them, else the socket's user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from npudoctor.core.frozen import dataclass, field
from npudoctor.core.ports import mask
from npudoctor.facts.job.examined_job import INIT, job_pids
from npudoctor.facts.job.ports import PortClaim
from npudoctor.host.host import Host
from npudoctor.host.network.sockets import TcpSocket
from npudoctor.host.users.accounts import user_names

# The last is an IPv4 loopback address in a socket of IPv6.
LOOPBACK = ("127.", "::1", "::ffff:127.")


class PortHolders:
    """Says who holds the sockets of one run; the descriptors of all processes are read once, and only when
    needed.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pids: Optional[dict[str, set[int]]] = None
        self._ancestors: Optional[frozenset[int]] = None
        self._users: Optional[dict[int, str]] = None

    def pids(self, bound: TcpSocket) -> tuple[int, ...]:
        """The processes that have a socket open; empty when none that we may look into has."""
        if self._pids is None:
            self._pids = {}
            for pid in self._host.processes.by_pid():
                for _number, target in self._host.processes.open_files(pid) or ():
                    # The kernel names sockets by inode, as /proc/net/tcp does.
                    if target.startswith("socket:["):
                        self._pids.setdefault(target, set()).add(pid)
        return tuple(sorted(self._pids.get(f"socket:[{bound.inode}]", ())))

    def is_held_by_ancestor(self, bound: TcpSocket) -> bool:
        """Return whether we ourselves or an ancestor of ours, except init, listens with this socket, or the
        examined job has it open.
        """
        # What the examined job holds itself is in nobody's way.
        job = job_pids(self._host)
        if job and not job.isdisjoint(self.pids(bound)):
            return True
        if self._ancestors is None:
            processes = self._host.processes
            everybody = processes.by_pid()
            line = processes.ancestors(processes.self_pid)
            self._ancestors = frozenset(pid for pid in line if everybody[pid].name not in INIT)
        return bound.is_listening and not self._ancestors.isdisjoint(self.pids(bound))

    def describe(self, bound: TcpSocket) -> tuple[str, ...]:
        """Each process as "pid 4711 (python3, alice)", or the user alone as "uid 1000 (alice)"."""
        texts = []
        for pid in self.pids(bound):
            process = self._host.processes.by_pid()[pid]
            user = self._names().get(process.uid, f"uid {process.uid}")
            texts.append(f"pid {pid} ({process.name}, {user})")
        if not texts:
            name = self._names().get(bound.uid)
            texts.append(f"uid {bound.uid} ({name})" if name else f"uid {bound.uid}")
        return tuple(texts)

    def _names(self) -> dict[int, str]:
        if self._users is None:
            self._users = user_names(self._host.files)
        return self._users


@dataclass(frozen=True)
class PortOccupants:
    """The sockets on the ports of a claim: `held` ones are in the way, `ancestors` are our own, `apart` are
    on an address that is not needed.
    """

    held: list[TcpSocket] = field(default_factory=list)
    ancestors: list[TcpSocket] = field(default_factory=list)
    apart: list[TcpSocket] = field(default_factory=list)


def find_occupants(claim: PortClaim, bound: Iterable[TcpSocket], holders: PortHolders) -> PortOccupants:
    """The sockets on the ports of a claim. Where somebody listens, connections on the same port were accepted
    by the listener, which alone counts.

    HCCL binds the address of a network card, which a connection within the machine leaves free.
    """
    # A machine may have tens of thousands of sockets.
    claimed = mask(claim.spans)
    here = [socket for socket in bound if claimed[socket.port]]
    listened = {socket.port for socket in here if socket.is_listening}
    occupants_of = PortOccupants()
    for socket in here:
        if socket.is_listening:
            (occupants_of.ancestors if holders.is_held_by_ancestor(socket) else occupants_of.held).append(
                socket
            )
        elif socket.port not in listened:
            inside = claim.hccl and socket.address.startswith(LOOPBACK)
            ours = occupants_of.ancestors if holders.is_held_by_ancestor(socket) else occupants_of.held
            (occupants_of.apart if inside else ours).append(socket)
    return occupants_of


def abbreviate(names: Iterable[str], most: int = 3) -> str:
    """Some of many names, each once: "a, b, c, ... (+4)"."""
    each = list(dict.fromkeys(names))
    return ", ".join(each[:most]) + (f", ... (+{len(each) - most})" if len(each) > most else "")
