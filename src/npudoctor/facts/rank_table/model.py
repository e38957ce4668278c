"""A rank table as servers and devices, whichever of its templates it follows; what is ill in its form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Optional

from npudoctor.core.frozen import dataclass, field
from npudoctor.core.messages import _

# The three published templates: server_list; group_list of pods; group_list of the laboratory.
SERVERS, PODS, LAB = "servers", "pods", "lab"
# The version of a table for super pods (A3).
SUPER_POD = "1.2"
VERSIONS = ("1.0", SUPER_POD)
PORTS = ("device_port", "backup_device_port", "host_port")

Object = Mapping[str, object]


@dataclass(frozen=True)
class Device:
    """One rank. `where`: its place in the file, for messages. `rank` is None in a table without rank ids.
    `ports`: by their keys.
    """

    where: str
    id: Optional[int]
    rank: Optional[int]
    ip: str = ""
    backup_ip: str = ""
    super_id: Optional[int] = None
    ports: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Server:
    """One server with its devices; `host_ip` is "" where none is given."""

    where: str
    id: str
    devices: tuple[Device, ...]
    host_ip: str = ""


@dataclass(frozen=True)
class SuperPod:
    """The servers of one super pod, by their ids."""

    where: str
    id: str
    servers: tuple[str, ...]


@dataclass(frozen=True)
class StatedCount:
    """A count in the table, and the real number of things that it counts. `stated`: None where it cannot be
    read.
    """

    where: str
    stated: Optional[int]
    real: int


@dataclass(frozen=True)
class RankTable:
    """A rank table. `template`: SERVERS, PODS or LAB; `pods`: their names; `counts`: all that is counted."""

    template: str
    version: str
    servers: tuple[Server, ...]
    super_pods: tuple[SuperPod, ...] = ()
    pods: tuple[str, ...] = ()
    counts: tuple[StatedCount, ...] = ()

    @property
    def devices(self) -> list[Device]:
        """All ranks, in the order of the file."""
        return [device for server in self.servers for device in server.devices]


def template_of(table: Object) -> str:
    """Which of the published templates a table follows: SERVERS, PODS or LAB."""
    if "group_list" not in table:
        return SERVERS
    return LAB if "para_plane_nic_location" in table or table.get("deploy_mode") == "lab" else PODS


class RankTableReader:
    """Reads a table, and lists in `faults` what is wrong with its form."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def table(self, document: Object) -> RankTable:
        """The table, with all that could be read."""
        template = template_of(document)
        return self._servers(document) if template == SERVERS else self._groups(document, template)

    def _servers(self, document: Object) -> RankTable:
        version = self.text(document, "version", "")
        listed = list(self.items(document, "server_list", ""))
        servers = tuple(self._server(server, where) for where, server in listed)
        count = StatedCount(
            "server_count", self.number(document, "server_count", "", needed=False), len(listed)
        )
        super_pods: tuple[SuperPod, ...] = ()
        # HCCL reads the list only in a table of that version.
        if version == SUPER_POD and "super_pod_list" in document:
            super_pods = tuple(
                self._super_pod(*place_and_pod)
                for place_and_pod in self.items(document, "super_pod_list", "")
            )
        return RankTable(SERVERS, version, servers, super_pods, counts=(count,))

    def _server(self, server: Object, where: str) -> Server:
        return Server(
            where,
            self.text(server, "server_id", where),
            tuple(
                self._device(device, place, server) for place, device in self.items(server, "device", where)
            ),
            self.text(server, "host_ip", where, needed=False),
        )

    def _super_pod(self, where: str, pod: Object) -> SuperPod:
        servers = self.items(pod, "server_list", where)
        return SuperPod(
            where,
            self.text(pod, "super_pod_id", where),
            tuple(self.text(server, "server_id", place) for place, server in servers),
        )

    def _groups(self, document: Object, template: str) -> RankTable:
        groups = list(self.items(document, "group_list", ""))
        counts = [StatedCount("group_count", self.number(document, "group_count", ""), len(groups))]
        pods: list[str] = []
        servers: dict[str, list[Device]] = {}
        for place, group in groups:
            here: set[str] = set()
            devices: list[Device] = []
            instances = list(self.items(group, "instance_list", place))
            for where, instance in instances:
                server = self.text(instance, "server_id", where)
                own_devices = [
                    self._device(device, spot, instance, template)
                    for spot, device in self.items(instance, "devices", where)
                ]
                if template == PODS:
                    pods.append(self.text(instance, "pod_name", where))
                servers.setdefault(server, []).extend(own_devices)
                here.add(server)
                devices += own_devices
            real = {"instance_count": len(instances)}
            if template == PODS:
                real["device_count"] = len(devices)
            else:
                real.update(device_num=len(devices), server_num=len(here))
            for name, number in real.items():
                counts.append(StatedCount(f"{place}.{name}", self.number(group, name, place), number))
        # Instances of one server are one server with all their devices.
        made = tuple(
            Server(f"server_id {name}", name, tuple(all_devices)) for name, all_devices in servers.items()
        )
        return RankTable(template, "", made, pods=tuple(pods), counts=tuple(counts))

    def _device(self, device: Object, where: str, above: Object, template: str = SERVERS) -> Device:
        # In the laboratory template the rank belongs to the instance above the device; pods have none.
        ranked = {SERVERS: (device, where), LAB: (above, where.rpartition(".")[0])}.get(template)
        ports = {name: self.number(device, name, where, needed=False) for name in PORTS}
        return Device(
            where,
            self.number(device, "device_id", where),
            self.number(ranked[0], "rank_id", ranked[1]) if ranked else None,
            self.text(device, "device_ip", where, needed=False),
            self.text(device, "backup_device_ip", where, needed=False),
            self.number(device, "super_device_id", where, needed=False),
            {name: port for name, port in ports.items() if port is not None},
        )

    def text(self, holder: Object, key: str, where: str, needed: bool = True) -> str:
        """A string; "" where it is missing. A fault is noted where it is no string, or missing and
        `needed`.
        """
        value = holder.get(key)
        place = f"{where}.{key}".lstrip(".")
        if isinstance(value, str):
            if needed and not value:
                self.faults.append(_("{place} is empty", place=place))
            return value
        if key in holder:
            self.faults.append(_("{place} is not a string: every value must be in quotes", place=place))
        elif needed:
            self.faults.append(_("{place} is missing", place=place))
        return ""

    def number(self, holder: Object, key: str, where: str, needed: bool = True) -> Optional[int]:
        """A whole number, written as a string; None where there is none."""
        value = self.text(holder, key, where, needed)
        # All values are strings in the published format, numbers too.
        if value.isascii() and value.isdecimal() and len(value) < 11:
            return int(value)
        if value:
            self.faults.append(
                _(
                    "{place} is {value}, which is not a whole number",
                    place=f"{where}.{key}".lstrip("."),
                    value=value[:40],
                )
            )
        return None

    def items(self, holder: Object, key: str, where: str) -> Iterator[tuple[str, Object]]:
        """Yield the objects of a list, each with its place."""
        value = holder.get(key)
        place = f"{where}.{key}".lstrip(".")
        if key not in holder:
            self.faults.append(_("{place} is missing", place=place))
        elif not isinstance(value, list) or not value:
            self.faults.append(_("{place} is not a non-empty list", place=place))
        else:
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield f"{place}[{index}]", item
                else:
                    self.faults.append(_("{place} is not an object", place=f"{place}[{index}]"))
