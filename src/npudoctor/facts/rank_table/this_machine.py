"""What a rank table says of this machine and this process, against what they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor.core.messages import _
from npudoctor.core.model import Severity
from npudoctor.facts.job.local_addresses import is_local
from npudoctor.facts.npu.visible import runtime_ids
from npudoctor.facts.rank_table.model import PODS, RankTable, Server
from npudoctor.facts.rank_table.rules import RankTableFault, is_address, list_values, retries_operators
from npudoctor.host import CannotTell
from npudoctor.host.devices.hccnconf import CONF, HccnConf, read_conf
from npudoctor.host.host import Host

RANKS = ("RANK_ID", "RANK")  # of MindSpore and TensorFlow, of torchrun
SIZES = ("RANK_SIZE", "WORLD_SIZE")
NODE = "/dev/davinci"


class LocalRankTable:
    """A rank table compared with this machine and the variables of the job.

    `rank`: the device of the rank that the variables name; `server`: this machine's. Each None where it is
    not in the table.
    """

    def __init__(self, host: Host, table: RankTable) -> None:
        self._host, self._table = host, table
        self._conf = _read_conf(host)
        # The rank that the variables name.
        number = next(
            (_read_number(self._host, name) for name in RANKS if name in self._host.variables), None
        )
        self.rank = next(
            (device for device in self._table.devices if number is not None and device.rank == number), None
        )
        self.server = self._find_own_server()

    def faults(self) -> Iterator[RankTableFault]:
        """Yield all in which they disagree."""
        # Even where this machine is not in the table: variables and table are compared by number.
        yield from self._judge_variables()
        if self.server is None:
            yield from self._judge_absence()
            return
        yield from self._judge_addresses(self.server)
        yield from self._judge_devices(self.server)
        yield from self._judge_device_id()
        if is_address(self.server.host_ip) and is_local(self._host, self.server.host_ip) is False:
            severity = Severity.WARNING if retries_operators(self._host.variables) else Severity.INFO
            yield RankTableFault(
                "host-address",
                _(
                    "server {server} is this machine, but its host_ip {address} is not a local address",
                    server=self.server.id,
                    address=self.server.host_ip,
                ),
                severity,
            )

    def _find_own_server(self) -> Optional[Server]:
        """The server of our rank; else the one with addresses of this machine; else the only one. None
        without such.
        """
        servers = self._table.servers
        if self.rank is not None:
            return next(
                server for server in servers if any(candidate is self.rank for candidate in server.devices)
            )
        if self._conf is not None:
            own = set(self._conf.addresses().values())
            for server in servers:
                if own & {device.ip for device in server.devices}:
                    return server
        # The table of a job on one machine needs no address.
        if len(servers) == 1:
            return servers[0]
        addresses = self._host.sockets.own_addresses()
        for server in servers:
            if addresses & {server.host_ip, server.id}:
                return server
        servers_by_name = (server for server in servers if server.id and not is_address(server.id))
        return next((server for server in servers_by_name if is_local(self._host, server.id)), None)

    def _judge_variables(self) -> Iterator[RankTableFault]:
        total = len(self._table.devices)
        for name in SIZES:
            size = _read_number(self._host, name)
            if size is not None and size != total:
                text = _("{variable} is {value}, but the rank table has {count} ranks")
                text = text.format(variable=name, value=size, count=total)
                # One process alone does not meet others: it may well leave the table aside.
                yield RankTableFault("rank-size", text, Severity.INFO if size == 1 else Severity.WARNING)
        for name in RANKS:
            value = self._host.variables.get(name, "")
            number = _read_number(self._host, name)
            if number is not None and number >= total:
                text = _("{variable} is {value}, but the ranks of the table are 0 to {last}")
                yield RankTableFault("rank-id", text.format(variable=name, value=number, last=total - 1))
            elif value and number is None and self._table.template != PODS:
                text = _("{variable} is {value}, which is not a rank")
                yield RankTableFault("rank-id", text.format(variable=name, value=value[:40]))

    def _judge_absence(self) -> Iterator[RankTableFault]:
        """This machine's NPUs have addresses, every rank of the table has one, and none is the same."""
        if self._conf is None or not self._conf.addresses() or not _node_ids(self._host):
            return
        if all(device.ip for device in self._table.devices):
            own = list_values(self._conf.addresses().values())
            yield RankTableFault(
                "not-this-host",
                _(
                    "no server of the rank table has the NPU addresses of this machine in {conf}: {own}",
                    conf=CONF,
                    own=own,
                ),
            )

    def _judge_addresses(self, server: Server) -> Iterator[RankTableFault]:
        if self._conf is None:
            return
        wrong = [
            _(
                "device_id {id} has {told}, but address_{id} is {real}",
                id=device.id,
                told=device.ip,
                real=real,
            )
            for device in server.devices
            if device.id is not None and is_address(device.ip)
            for real in [self._conf.get(device.id, "address")]
            if real is not None and real != device.ip
        ]
        if wrong:
            text = _("server {server} is this machine, but its device_ip is not the one in {conf}: {what}")
            text = text.format(server=server.id, conf=CONF, what=list_values(wrong, 3))
            several = len(self._table.servers) > 1
            # On one server the ranks meet over links that have no address, on most machines.
            yield RankTableFault("wrong-address", text, *(() if several else (Severity.WARNING,)))

    def _judge_devices(self, server: Server) -> Iterator[RankTableFault]:
        nodes = _node_ids(self._host)
        if not nodes:
            return
        devices = [self.rank] if self.rank else list(server.devices)
        missing = sorted(
            {device.id for device in devices if device.id is not None and device.id not in nodes}
        )
        if not missing:
            return
        # A container shows the NPUs that it was given; the table has all of the server's.
        elsewhere = self.rank is None and self._host.system.is_container()
        if elsewhere and any(device.id in nodes for device in devices):
            return  # the others may be of other containers
        text = _("server {server} is this machine, but device_id {ids} has no {node}: there are only {nodes}")
        text = text.format(
            server=server.id, ids=list_values(missing), node=f"{NODE}N", nodes=list_values(nodes, 16)
        )
        yield RankTableFault("no-device", text, *((Severity.WARNING,) if elsewhere else ()))

    def _judge_device_id(self) -> Iterator[RankTableFault]:
        """DEVICE_ID counts the devices that the process sees; the table has physical ids."""
        number, visible_ids = _read_number(self._host, "DEVICE_ID"), _visible_ids(self._host)
        if number is None or self.rank is None or self.rank.id is None or not visible_ids:
            return
        physical = visible_ids[number] if number < len(visible_ids) else number
        if physical != self.rank.id:
            text = _(
                "DEVICE_ID is {value}, which is NPU {physical}; rank {rank} of the table has device_id {id}"
            )
            text = text.format(value=number, physical=physical, rank=self.rank.rank, id=self.rank.id)
            yield RankTableFault("device-id", text, Severity.WARNING)


def _read_number(host: Host, variable: str) -> Optional[int]:
    value = host.variables.get(variable, "").strip()
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else None


def _read_conf(host: Host) -> Optional[HccnConf]:
    try:
        return read_conf(host.running_files)
    except CannotTell:
        return None  # hccn-config says so


def _node_ids(host: Host) -> list[int]:
    """The physical ids of the NPUs that are here; none where we may not look into /dev."""
    try:
        nodes = host.npus.nodes
    except CannotTell:
        return []
    return sorted(int(node[len(NODE) :]) for node in nodes if node.startswith(NODE))


def _visible_ids(host: Host) -> list[int]:
    """The physical ids in the order in which the process counts them."""
    nodes = _node_ids(host)
    # Indices start at 0 again behind this variable.
    chosen = host.variables.get("ASCEND_RT_VISIBLE_DEVICES", "")
    if not chosen:
        return nodes
    visible = runtime_ids(chosen, len(nodes))
    return [] if visible.stopped else [nodes[number] for number in visible.ids]  # device-visibility says so
