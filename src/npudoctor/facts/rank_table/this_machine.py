"""What a rank table says of this machine and this process, against what they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from npudoctor.core.messages import _
from npudoctor.core.model import Severity
from npudoctor.facts.job.local_addresses import is_local
from npudoctor.facts.npu.visible import runtime_ids
from npudoctor.facts.rank_table.model import PODS, RankTable, Server
from npudoctor.facts.rank_table.rules import Fault, is_address, list_values, retries
from npudoctor.host import CannotTell
from npudoctor.host.devices.hccnconf import CONF, HccnConf, read_conf
from npudoctor.host.host import Host

RANKS = ("RANK_ID", "RANK")  # of MindSpore and TensorFlow, of torchrun
SIZES = ("RANK_SIZE", "WORLD_SIZE")
NODE = "/dev/davinci"


class Here:
    """A table beside the machine and the variables of the job."""

    def __init__(self, host: Host, table: RankTable) -> None:
        self._host, self._table = host, table
        self._conf = _conf(host)
        # The rank that the variables name.
        number = next((_number(self._host, name) for name in RANKS if name in self._host.variables), None)
        self.rank = next(
            (device for device in self._table.devices if number is not None and device.rank == number), None
        )
        self.server = self._own_server()

    def faults(self) -> Iterator[Fault]:
        """All in which they disagree."""
        yield from self._variables()
        if self.server is None:
            yield from self._nowhere()
            return
        yield from self._wrong_addresses(self.server)
        yield from self._missing_devices(self.server)
        yield from self._wrong_device()
        if is_address(self.server.host_ip) and is_local(self._host, self.server.host_ip) is False:
            severity = Severity.WARNING if retries(self._host.variables) else Severity.INFO
            yield Fault(
                "host-address",
                _(
                    "server {server} is this machine, but its host_ip {address} is not a local address",
                    server=self.server.id,
                    address=self.server.host_ip,
                ),
                severity,
            )

    def _own_server(self) -> Optional[Server]:
        """That of our rank; else the one with addresses of this machine; else the only one."""
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
        if len(servers) == 1:
            return servers[0]
        addresses = self._host.sockets.own_addresses()
        for server in servers:
            if addresses & {server.host_ip, server.id}:
                return server
        named = (server for server in servers if server.id and not is_address(server.id))
        return next((server for server in named if is_local(self._host, server.id)), None)

    def _variables(self) -> Iterator[Fault]:
        total = len(self._table.devices)
        for name in SIZES:
            size = _number(self._host, name)
            if size is not None and size != total:
                text = _("{variable} is {value}, but the rank table has {count} ranks")
                text = text.format(variable=name, value=size, count=total)
                # One process alone does not meet others: it may well leave the table aside.
                yield Fault("rank-size", text, Severity.INFO if size == 1 else Severity.WARNING)
        for name in RANKS:
            value = self._host.variables.get(name, "")
            number = _number(self._host, name)
            if number is not None and number >= total:
                text = _("{variable} is {value}, but the ranks of the table are 0 to {last}")
                yield Fault("rank-id", text.format(variable=name, value=number, last=total - 1))
            elif value and number is None and self._table.template != PODS:
                text = _("{variable} is {value}, which is not a rank")
                yield Fault("rank-id", text.format(variable=name, value=value[:40]))

    def _nowhere(self) -> Iterator[Fault]:
        """This machine's NPUs have addresses, every rank of the table has one, and none is the same."""
        if self._conf is None or not self._conf.addresses() or not _nodes(self._host):
            return
        if all(device.ip for device in self._table.devices):
            own = list_values(self._conf.addresses().values())
            yield Fault(
                "not-this-host",
                _(
                    "no server of the rank table has the NPU addresses of this machine in {conf}: {own}",
                    conf=CONF,
                    own=own,
                ),
            )

    def _wrong_addresses(self, server: Server) -> Iterator[Fault]:
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
            yield Fault("wrong-address", text, *(() if several else (Severity.WARNING,)))

    def _missing_devices(self, server: Server) -> Iterator[Fault]:
        nodes = _nodes(self._host)
        if not nodes:
            return
        wanted = [self.rank] if self.rank else list(server.devices)
        missing = sorted({device.id for device in wanted if device.id is not None and device.id not in nodes})
        if not missing:
            return
        elsewhere = self.rank is None and self._host.system.is_container()
        if elsewhere and any(device.id in nodes for device in wanted):
            return  # the others may be of other containers
        text = _("server {server} is this machine, but device_id {ids} has no {node}: there are only {nodes}")
        text = text.format(
            server=server.id, ids=list_values(missing), node=f"{NODE}N", nodes=list_values(nodes, 16)
        )
        yield Fault("no-device", text, *((Severity.WARNING,) if elsewhere else ()))

    def _wrong_device(self) -> Iterator[Fault]:
        """DEVICE_ID counts the devices that the process sees; the table has physical ids."""
        number, seen = _number(self._host, "DEVICE_ID"), _visible(self._host)
        if number is None or self.rank is None or self.rank.id is None or not seen:
            return
        physical = seen[number] if number < len(seen) else number
        if physical != self.rank.id:
            text = _(
                "DEVICE_ID is {value}, which is NPU {physical}; rank {rank} of the table has device_id {id}"
            )
            text = text.format(value=number, physical=physical, rank=self.rank.rank, id=self.rank.id)
            yield Fault("device-id", text, Severity.WARNING)


def _number(host: Host, variable: str) -> Optional[int]:
    value = host.variables.get(variable, "").strip()
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else None


def _conf(host: Host) -> Optional[HccnConf]:
    try:
        return read_conf(host.running_files)
    except CannotTell:
        return None  # hccn-config says so


def _nodes(host: Host) -> list[int]:
    """The physical ids of the NPUs that are here; none where /dev is closed to us."""
    try:
        nodes = host.npus.nodes
    except CannotTell:
        return []
    return sorted(int(node[len(NODE) :]) for node in nodes if node.startswith(NODE))


def _visible(host: Host) -> list[int]:
    """The physical ids in the order in which the process counts them."""
    nodes = _nodes(host)
    chosen = host.variables.get("ASCEND_RT_VISIBLE_DEVICES", "")
    if not chosen:
        return nodes
    seen = runtime_ids(chosen, len(nodes))
    return [] if seen.stopped else [nodes[number] for number in seen.ids]  # device-visibility says so
