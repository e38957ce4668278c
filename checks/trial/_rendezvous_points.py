"""What trial-rendezvous asks for: where the ranks meet, who listens there already, and HCCL's host ports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor import Host
from npudoctor.checks.trial._folders import is_installed
from npudoctor.core.frozen import dataclass, field
from npudoctor.facts.job.interface_names import GLOO, HCCL, default_order, read_names, usable_addresses
from npudoctor.facts.job.nodes import read_number, runs_first_rank
from npudoctor.facts.job.ports import BASE, PortClaim, RemotePort, find_named_ports
from npudoctor.facts.leftovers.port_holders import PortHolders, find_occupants
from npudoctor.host import CannotTell
from npudoctor.host.network.sockets import TcpSocket

# The variable of a port, and the one of the address to which it belongs.
PLACES = {"MASTER_PORT": "MASTER_ADDR", "MS_SCHED_PORT": "MS_SCHED_HOST"}
LOOPBACK = "127.0.0.1"  # where torchrun and msrun meet when nobody says where
PER_NODE = 16  # HCCL's ports on the host: one of each NPU, from the base port on
WIDEST = 64  # of a range that is tried


@dataclass(frozen=True)
class Point:
    """Where ranks meet. `label`: the variable of the port, "" for the loopback address, of which no variable
    speaks. `launcher`: this job's own launcher listens there already, or will. `here`: False where it is
    known to be another machine. `listens`: whether somebody on this machine will listen there. `surely`: it
    is torch that does, on all addresses. `first`: whether the rank that listens is known to run here."""

    label: str
    place: str
    port: int
    launcher: bool = False
    here: Optional[bool] = None
    listens: bool = True
    claim: Optional[PortClaim] = None
    surely: bool = True
    first: bool = False

    @property
    def far(self) -> bool:
        """Whether it is known to be another machine."""
        return self.here is False

    def question(self) -> dict[str, object]:
        """For the child."""
        how = "place" if self.label == "MS_SCHED_PORT" else "any" if self.surely else "either"
        return {
            "label": self.label,
            "place": self.place,
            "port": self.port,
            "bind": "" if self.launcher or not self.listens else how,
            "here": self.here,
            "call": not self.launcher,
            "first": self.first,
        }


@dataclass(frozen=True)
class HostPorts:
    """HCCL's ports on the host, all of one address. `needed`: those without which it does not start; empty
    where any one of them is enough."""

    label: str
    address: str
    ports: Sequence[int]
    needed: frozenset[int] = field(default_factory=frozenset)
    claim: Optional[PortClaim] = None

    def question(self) -> dict[str, object]:
        """For the child."""
        return {"address": self.address, "ports": list(self.ports)}


def points(host: Host, holders: PortHolders) -> list[Point]:
    """Those that the variables name; where none is on this machine, the loopback address too."""
    first = runs_first_rank(host)
    agent = host.variables.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    torch = is_installed(host, "torch")
    named: list[Point] = []
    for ports in find_named_ports(host):
        label = ports.variable
        if isinstance(ports, PortClaim) and label in PLACES:
            port, place = ports.spans[0][0], host.variables[PLACES[label]]
            ours = _of_this_job(host, ports, holders)
            launcher = ours or (agent and label == "MASTER_PORT")
            # Only the first rank ever listens there: another one would take the port from it for a moment.
            listens = label != "MASTER_PORT" or not read_number(host, "RANK")
            store = first and label == "MASTER_PORT"
            named.append(
                Point(label, place, port, launcher, None, listens, claim=ports, surely=torch, first=store)
            )
        elif isinstance(ports, RemotePort) and ports.is_elsewhere and ports.port:
            label = next(name for name, place in PLACES.items() if place == ports.variable)
            store = label == "MASTER_PORT"
            # The first rank listens on all addresses, whatever its own is called from outside.
            listens = first and store
            named.append(
                Point(
                    label,
                    ports.value,
                    ports.port,
                    agent and store,
                    listens,
                    listens,
                    surely=torch,
                    first=listens,
                )
            )
    if all(point.far for point in named):
        named.append(Point("", LOOPBACK, 0, here=True))
    return named


def _of_this_job(host: Host, claim: PortClaim, holders: PortHolders) -> bool:
    """Whether who listens is this job's: an ancestor, a process of the examined job, or the rank with which
    the others of this node, us among them, will meet."""
    found = find_occupants(claim, host.sockets.bound(), holders)
    if found.ancestors:
        return True
    rank = read_number(host, "RANK")
    if not rank or claim.variable != "MASTER_PORT":
        return False
    names = ("MASTER_ADDR", "MASTER_PORT")
    return any(
        host.processes.variable(pid, "RANK") == "0"
        and all(host.processes.variable(pid, name) == host.variables.get(name) for name in names)
        for socket in found.held
        if socket.listening
        for pid in holders.pids(socket)
    )


def listeners(host: Host, claim: PortClaim, holders: PortHolders, port: int = 0) -> list[TcpSocket]:
    """Who is in the way of a claim, or of one of its ports."""
    held = find_occupants(claim, host.sockets.bound(), holders).held
    return [socket for socket in held if port in (0, socket.port)]


def host_ports(host: Host, holders: PortHolders) -> Optional[HostPorts]:
    """What HCCL listens on, on this host; None where it is not used, or nobody can say on which address."""
    try:
        if not host.npu_wanted():
            return None
    except CannotTell:
        return None
    listed = _of_the_rank_table(host)
    if listed is not None:
        return listed
    address = _address(host)
    claims = [ports for ports in find_named_ports(host) if isinstance(ports, PortClaim) and ports.hccl]
    for claim in claims[-1:] if address else []:
        if find_occupants(claim, host.sockets.bound(), holders).ancestors:
            return None
        every = [port for low, high in claim.spans for port in range(low, high + 1)][:WIDEST]
        if claim.variable != BASE:
            return HostPorts(claim.label, address, every, claim=claim) if every else None
        base = every[0]
        ids = _devices(host)
        needed = frozenset(base + device for device in ids if device < PER_NODE)
        return HostPorts(claim.label, address, every[:PER_NODE], needed, claim)
    return None


def ways(host: Host) -> list[dict[str, str]]:
    """The addresses on which Gloo is told to meet: the first one of each interface, as it takes them."""
    value = host.variables.get(GLOO, "")
    named = read_names(GLOO, value).of(host.network.interfaces()) if value else []
    first = (next(iter(sorted(usable_addresses(one), key=lambda own: own.ipv6)), None) for one in named)
    return [{"label": f"{GLOO}={value}", "address": own.text} for own in first if own is not None]


def _of_the_rank_table(host: Host) -> Optional[HostPorts]:
    """The ports of this host in the job's rank table; where they are wrong, rank-table says so."""
    from npudoctor.facts.rank_table.model import RankTableReader
    from npudoctor.facts.rank_table.reading import VARIABLE, named_path, read_table
    from npudoctor.facts.rank_table.this_machine import LocalRankTable

    if not host.variables.get(VARIABLE):
        return None
    try:
        look = read_table(host, named_path(host, VARIABLE) or "")
        if look.fault or look.initializing:
            return None
        server = LocalRankTable(host, RankTableReader().table(look.table)).server
    except CannotTell:
        return None
    if server is None or not server.host_ip:
        return None
    ports = {device.ports.get("host_port", 0) for device in server.devices}
    ports = {port for port in ports if 0 < port < 1 << 16}
    return HostPorts(VARIABLE, server.host_ip, sorted(ports), frozenset(ports)) if ports else None


def _address(host: Host) -> str:
    """The address on which HCCL listens: as its variables say, else the first of its own choice."""
    told = host.variables.get("HCCL_IF_IP", "")
    if told:
        return told
    there = host.network.interfaces()
    try:
        chosen = read_names(HCCL, host.variables[HCCL]).of(there) if host.variables.get(HCCL) else there
    except ValueError:
        return ""
    usable = (address for interface in default_order(chosen) for address in usable_addresses(interface))
    return next((address.text for address in usable if not address.ipv6), "")


def _devices(host: Host) -> Iterator[int]:
    """The ids of the NPUs that the job gets."""
    from npudoctor.facts.npu.visible import RUNTIME, runtime_ids

    count = len(host.npus.nodes) or PER_NODE // 2
    told = host.variables.get(RUNTIME)
    yield from runtime_ids(told, count).ids if told else range(count)
