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
class MeetingPoint:
    """Where ranks meet. `label`: the variable of the port, "" for the loopback address, which no variable
    names. `launcher`: this job's own launcher listens there already, or will. `is_here`: False if it is known
    to be another machine, None if unknown. `listens`: a process of the job will listen there on this machine.
    `binds_all`: it is torch, which listens on all addresses. `is_first_rank`: the rank that listens is known
    to run here."""

    label: str
    place: str
    port: int
    launcher: bool = False
    is_here: Optional[bool] = None
    listens: bool = True
    claim: Optional[PortClaim] = None
    binds_all: bool = True
    is_first_rank: bool = False

    @property
    def is_far(self) -> bool:
        """Whether the point is known to be on another machine."""
        return self.is_here is False

    def question(self) -> dict[str, object]:
        """Return the point as JSON for the trial's child process."""
        # MindSpore's scheduler binds the address alone; torch's TCPStore binds all addresses; without torch
        # either one will do.
        how = "place" if self.label == "MS_SCHED_PORT" else "any" if self.binds_all else "either"
        return {
            "label": self.label,
            "place": self.place,
            "port": self.port,
            "bind": "" if self.launcher or not self.listens else how,
            "here": self.is_here,
            "call": not self.launcher,
            "first": self.is_first_rank,
        }


@dataclass(frozen=True)
class HostPorts:
    """HCCL's ports on the host, all on one address. `needed`: ports without which HCCL does not start; empty
    if any one of them is enough."""

    label: str
    address: str
    ports: Sequence[int]
    needed: frozenset[int] = field(default_factory=frozenset)
    claim: Optional[PortClaim] = None

    def question(self) -> dict[str, object]:
        """Return the ports as JSON for the trial's child process."""
        return {"address": self.address, "ports": list(self.ports)}


def find_points(host: Host, holders: PortHolders) -> list[MeetingPoint]:
    """Return the points that the variables name; if none is on this machine, the loopback address too."""
    is_first = runs_first_rank(host)
    has_agent = host.variables.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    has_torch = is_installed(host, "torch")
    meeting_points: list[MeetingPoint] = []
    for ports in find_named_ports(host):
        label = ports.variable
        if isinstance(ports, PortClaim) and label in PLACES:
            port, place = ports.spans[0][0], host.variables[PLACES[label]]
            is_ours = _is_this_jobs(host, ports, holders)
            has_launcher = is_ours or (has_agent and label == "MASTER_PORT")
            # Only rank 0 listens on MASTER_PORT: a trial for another rank would take the port from it for a
            # moment.
            listens = label != "MASTER_PORT" or not read_number(host, "RANK")
            is_store = is_first and label == "MASTER_PORT"
            meeting_points.append(
                MeetingPoint(
                    label,
                    place,
                    port,
                    has_launcher,
                    None,
                    listens,
                    claim=ports,
                    binds_all=has_torch,
                    is_first_rank=is_store,
                )
            )
        elif isinstance(ports, RemotePort) and ports.is_elsewhere and ports.port:
            label = next(name for name, place in PLACES.items() if place == ports.variable)
            is_store = label == "MASTER_PORT"
            # Rank 0 listens on all addresses, so it listens here even if MASTER_ADDR is another machine's,
            # such as a service address in Kubernetes.
            listens = is_first and is_store
            meeting_points.append(
                MeetingPoint(
                    label,
                    ports.value,
                    ports.port,
                    has_agent and is_store,
                    listens,
                    listens,
                    binds_all=has_torch,
                    is_first_rank=listens,
                )
            )
    # torchrun and msrun take 127.0.0.1 if no variable names an address of this machine.
    if all(point.is_far for point in meeting_points):
        meeting_points.append(MeetingPoint("", LOOPBACK, 0, is_here=True))
    return meeting_points


def _is_this_jobs(host: Host, claim: PortClaim, holders: PortHolders) -> bool:
    """Whether the listener belongs to this job: an ancestor, a process of the examined job, or rank 0 of the
    same MASTER_ADDR and MASTER_PORT."""
    occupied = find_occupants(claim, host.sockets.bound_sockets(), holders)
    if occupied.ancestors:
        return True
    rank = read_number(host, "RANK")
    if not rank or claim.variable != "MASTER_PORT":
        return False
    names = ("MASTER_ADDR", "MASTER_PORT")
    return any(
        host.processes.variable(pid, "RANK") == "0"
        and all(host.processes.variable(pid, name) == host.variables.get(name) for name in names)
        for socket in occupied.held
        if socket.is_listening
        for pid in holders.pids(socket)
    )


def find_listeners(host: Host, claim: PortClaim, holders: PortHolders, port: int = 0) -> list[TcpSocket]:
    """Return the sockets that hold the ports of a claim, or one of its ports."""
    held = find_occupants(claim, host.sockets.bound_sockets(), holders).held
    return [socket for socket in held if port in (0, socket.port)]


def find_host_ports(host: Host, holders: PortHolders) -> Optional[HostPorts]:
    """Return the ports on which HCCL listens on this host; None if HCCL is not used or its address is
    unknown."""
    try:
        if not host.wants_npus():
            return None
    except CannotTell:
        # Whether HCCL is used is unknown, so its ports are not tried.
        return None
    listed = _rank_table_ports(host)
    if listed is not None:
        return listed
    address = _hccl_address(host)
    claims = [ports for ports in find_named_ports(host) if isinstance(ports, PortClaim) and ports.hccl]
    for claim in claims[-1:] if address else []:
        if find_occupants(claim, host.sockets.bound_sockets(), holders).ancestors:
            return None
        all_ports = [port for low, high in claim.spans for port in range(low, high + 1)][:WIDEST]
        if claim.variable != BASE:
            return HostPorts(claim.label, address, all_ports, claim=claim) if all_ports else None
        base = all_ports[0]
        ids = _device_ids(host)
        needed = frozenset(base + device for device in ids if device < PER_NODE)
        return HostPorts(claim.label, address, all_ports[:PER_NODE], needed, claim)
    return None


def find_gloo_addresses(host: Host) -> list[dict[str, str]]:
    """Return the addresses of GLOO_SOCKET_IFNAME: the first one of each interface, as Gloo chooses it."""
    value = host.variables.get(GLOO, "")
    interfaces = read_names(GLOO, value).of(host.network.interfaces()) if value else []
    first = (
        next(iter(sorted(usable_addresses(interface), key=lambda own: own.ipv6)), None)
        for interface in interfaces
    )
    return [{"label": f"{GLOO}={value}", "address": own.text} for own in first if own is not None]


def _rank_table_ports(host: Host) -> Optional[HostPorts]:
    """Return the ports of this host in the job's rank table; None if it has none. rank-table reports wrong
    ones."""
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.facts.rank_table.model import RankTableReader
    from npudoctor.facts.rank_table.reading import VARIABLE, named_path, read_table
    from npudoctor.facts.rank_table.this_machine import LocalRankTable

    if not host.variables.get(VARIABLE):
        return None
    try:
        file = read_table(host, named_path(host, VARIABLE) or "")
        if file.fault or file.initializing:
            return None
        server = LocalRankTable(host, RankTableReader().table(file.table)).server
    except CannotTell:
        # rank-table reports a table that cannot be read.
        return None
    if server is None or not server.host_ip:
        return None
    ports = {device.ports.get("host_port", 0) for device in server.devices}
    ports = {port for port in ports if 0 < port < 1 << 16}
    return HostPorts(VARIABLE, server.host_ip, sorted(ports), frozenset(ports)) if ports else None


def _hccl_address(host: Host) -> str:
    """Return the address on which HCCL listens: by HCCL_IF_IP, HCCL_SOCKET_IFNAME, or its default order; ""
    if unknown."""
    value = host.variables.get("HCCL_IF_IP", "")
    if value:
        return value
    existing = host.network.interfaces()
    try:
        chosen = read_names(HCCL, host.variables[HCCL]).of(existing) if host.variables.get(HCCL) else existing
    except ValueError:
        # socket-interfaces reports the value; HCCL would stop with it.
        return ""
    usable = (address for interface in default_order(chosen) for address in usable_addresses(interface))
    return next((address.text for address in usable if not address.ipv6), "")


def _device_ids(host: Host) -> Iterator[int]:
    """Yield the ids of the NPUs that the job gets."""
    from npudoctor.facts.npu.visible import RUNTIME, runtime_ids

    count = len(host.npus.nodes) or PER_NODE // 2
    value = host.variables.get(RUNTIME)
    yield from runtime_ids(value, count).ids if value else range(count)
