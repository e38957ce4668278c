"""The rules that a rank table keeps by itself, whatever machine it is on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _
from npudoctor.core.model import Severity
from npudoctor.facts.rank_table.model import LAB, PODS, SERVERS, SUPER_POD, Device, RankTable

# The longest id that HCCL accepts.
NAME_BYTES = 64
PER_SERVER = (1, 2, 4, 8, 16)
RESERVED = 1024  # the ports below are the system's

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class RankTableFault:
    """One thing that is wrong, and the code under which it is reported."""

    code: str
    text: str
    severity: Severity = Severity.ERROR


def find_inner_faults(table: RankTable, variables: Mapping[str, str]) -> Iterator[RankTableFault]:
    """All that is wrong with a table in itself. `variables` say which optional keys the job needs."""
    yield from _judge_counts(table)
    yield from _judge_names(table)
    yield from _judge_ranks(table)
    for server in table.servers:
        by_id: dict[int, list[Device]] = {}
        for device in server.devices:
            if device.id is not None:
                by_id.setdefault(device.id, []).append(device)
        for number, same in by_id.items():
            if len(same) < 2:
                continue
            # Several ranks may share an NPU, each with its own port.
            text = _("device_id {number} of server {server} appears {count} times")
            text = text.format(number=number, server=server.id, count=len(same))
            if len({device.ip for device in same if device.ip}) > 1:
                yield RankTableFault("repeated", text)
            elif len({device.ports.get("device_port", 0) for device in same}) < len(same):
                yield RankTableFault("shared-device", text, Severity.WARNING)
    yield from _judge_addresses(table, variables)
    yield from _judge_ports(table)
    if table.version == SUPER_POD:
        yield from _judge_super_pods(table)
        yield from _judge_backups(table, variables)


def find_repeated(values: Iterable[T]) -> list[T]:
    """The values that occur more than once."""
    return [value for value, count in Counter(values).items() if count > 1]


def list_values(values: Iterable[object], most: int = 8) -> str:
    """The values with commas; of many the first `most`, and how many more."""
    words = [str(value) for value in values]
    return ", ".join(words[:most]) + (f" (+{len(words) - most})" if len(words) > most else "")


def is_address(text: str) -> bool:
    """Return whether it is an IPv4 or IPv6 address that a device can have."""
    import ipaddress

    try:
        return not ipaddress.ip_address(text).is_unspecified
    except ValueError:
        return False


def retries_operators(variables: Mapping[str, str]) -> bool:
    """Return whether operators are run again over another link: only then host_ip and backups matter."""
    return ":1" in variables.get("HCCL_OP_RETRY_ENABLE", "")


def _judge_counts(table: RankTable) -> Iterator[RankTableFault]:
    for count in table.counts:
        if count.stated is not None and count.stated != count.real:
            yield RankTableFault(
                "wrong-count",
                _(
                    "{place} is {told}, but there are {real}",
                    place=count.where,
                    told=count.stated,
                    real=count.real,
                ),
            )
    # In the laboratory template HCCL refuses other counts; elsewhere they are only unusual.
    sizes = [len(server.devices) for server in table.servers if server.devices]
    if any(size not in PER_SERVER for size in sizes) or len(set(sizes)) > 1:
        severity = Severity.ERROR if table.template == LAB else Severity.INFO
        yield RankTableFault(
            "device-counts",
            _(
                "the servers have {counts} devices; usual counts are 1, 2, 4, 8 or 16, the same on each "
                "server",
                counts=list_values(sizes),
            ),
            severity,
        )


def _judge_names(table: RankTable) -> Iterator[RankTableFault]:
    names = {
        "server_id": [server.id for server in table.servers],
        "super_pod_id": [pod.id for pod in table.super_pods],
        "pod_name": list(table.pods),
    }
    for key, values in names.items():
        for value in find_repeated(value for value in values if value):
            yield RankTableFault(
                "repeated", _("{key} {value} appears more than once", key=key, value=value[:NAME_BYTES])
            )
        for value in values:
            if len(value.encode("utf-8", "replace")) > NAME_BYTES:
                yield RankTableFault(
                    "bad-value",
                    _(
                        "{key} {value} is longer than {count} characters",
                        key=key,
                        value=value[:20] + "...",
                        count=NAME_BYTES,
                    ),
                )


def _judge_ranks(table: RankTable) -> Iterator[RankTableFault]:
    ranks = [device.rank for device in table.devices if device.rank is not None]
    if table.template == PODS or len(ranks) != len(table.devices):
        return
    twice, gaps = sorted(find_repeated(ranks)), sorted(set(range(len(ranks))) - set(ranks))
    if twice:
        yield RankTableFault(
            "rank-ids", _("rank_id {ranks} appears more than once", ranks=list_values(twice))
        )
    if gaps:
        text = _("rank_id {ranks} is missing: {count} ranks must be 0 to {last}")
        text = text.format(ranks=list_values(gaps), count=len(ranks), last=len(ranks) - 1)
        yield RankTableFault("rank-ids", text)
    # Whether ranks are consecutive means nothing then.
    if twice or gaps:
        return
    for server in table.servers:
        own = sorted(device.rank for device in server.devices if device.rank is not None)
        if own and own[-1] - own[0] >= len(own):  # n ranks in a row span n - 1
            yield RankTableFault(
                "split-ranks",
                _(
                    "the ranks of server {server} are not consecutive: {ranks}",
                    server=server.id,
                    ranks=list_values(own),
                ),
                Severity.WARNING,
            )


def _judge_addresses(table: RankTable, variables: Mapping[str, str]) -> Iterator[RankTableFault]:
    owners: dict[str, tuple[str, object]] = {}
    lacking: list[str] = []
    for server in table.servers:
        if server.host_ip and not is_address(server.host_ip):
            yield _bad_address(f"{server.where}.host_ip", server.host_ip)
        for device in server.devices:
            if not device.ip and not server.host_ip:
                lacking.append(device.where)
            for address in device.ip.split(",") if device.ip else ():
                if not is_address(address):
                    yield _bad_address(f"{device.where}.device_ip", address)
                elif owners.setdefault(address, (server.id, device.id)) != (server.id, device.id):
                    yield RankTableFault(
                        "repeated", _("several devices have device_ip {value}", value=address)
                    )
    # One server does without, unless its devices are to speak over RoCE; a super pod over HCCS likewise.
    if table.template == SERVERS and len(table.super_pods) == 1:
        needed = variables.get("HCCL_INTER_HCCS_DISABLE", "").upper() == "TRUE"
    else:
        needed = len(table.servers) > 1 or variables.get("HCCL_INTRA_ROCE_ENABLE") == "1"
    if lacking and needed:
        yield RankTableFault(
            "no-address",
            _("device_ip is missing in {places}, and this job needs it", places=list_values(lacking)),
        )


def _bad_address(place: str, value: str) -> RankTableFault:
    return RankTableFault(
        "bad-value", _("{place} is {value}, which is not an IP address", place=place, value=value[:60])
    )


def _judge_ports(table: RankTable) -> Iterator[RankTableFault]:
    low: list[str] = []
    for server in table.servers:
        for device in server.devices:
            for name, port in device.ports.items():
                if not 1 <= port <= 65535:
                    text = _("{place} is {port}, which is not a port from 1 to 65535")
                    yield RankTableFault("bad-value", text.format(place=f"{device.where}.{name}", port=port))
                elif port < RESERVED:
                    low.append(f"{device.where}.{name}={port}")
        hosts = [device.ports["host_port"] for device in server.devices if "host_port" in device.ports]
        # Ranks of one server bind their host ports on one machine.
        if find_repeated(hosts):
            text = _("several devices of server {server} have host_port {ports}")
            text = text.format(ports=list_values(find_repeated(hosts)), server=server.id)
            yield RankTableFault("shared-port", text, Severity.WARNING)
    if low:
        text = _("ports below 1024 are reserved for the system: {places}")
        yield RankTableFault("low-port", text.format(places=list_values(low)), Severity.INFO)


def _judge_super_pods(table: RankTable) -> Iterator[RankTableFault]:
    marked = [device for device in table.devices if device.super_id is not None]
    # HCCL then falls back to server mode (documents of the A3 template).
    if not table.super_pods or not marked:
        text = _("without {key}, HCCL treats these servers as outside a super pod")
        key = "super_device_id" if table.super_pods else "super_pod_list"
        yield RankTableFault("server-mode", text.format(key=key), Severity.INFO)
        return
    for device in table.devices:
        if device.super_id is None:
            yield RankTableFault("super-pods", _("{place}.super_device_id is missing", place=device.where))
    # Both lists must name the same servers, each once.
    members = [server for pod in table.super_pods for server in pod.servers]
    listed_ids = {server.id for server in table.servers}
    for text, names in (
        (_("super_pod_list contains {names}, but server_list does not"), set(members) - listed_ids),
        (_("super_pod_list does not contain {names} of server_list"), listed_ids - set(members)),
        (_("super_pod_list contains {names} more than once"), set(find_repeated(members))),
    ):
        if names:
            yield RankTableFault("super-pods", text.format(names=list_values(sorted(names))))
    yield from _judge_inside_pods(table)


def _judge_inside_pods(table: RankTable) -> Iterator[RankTableFault]:
    order: dict[str, int] = {}
    for position, server in enumerate(table.servers):
        order.setdefault(server.id, position)
    servers = {server.id: server for server in table.servers}
    for pod in table.super_pods:
        inside = [servers[name] for name in pod.servers if name in servers]
        ids = [
            device.super_id for server in inside for device in server.devices if device.super_id is not None
        ]
        if find_repeated(ids):
            yield RankTableFault(
                "repeated",
                _(
                    "super_device_id {ids} appears more than once in super pod {pod}",
                    ids=list_values(find_repeated(ids)),
                    pod=pod.id,
                ),
            )
        # Ranks follow the order of server_list: a pod that is split has split ranks.
        places = sorted(order[server.id] for server in inside)
        if places and places[-1] - places[0] >= len(places):
            yield RankTableFault(
                "split-ranks",
                _("the servers of super pod {pod} are not consecutive in server_list", pod=pod.id),
                Severity.WARNING,
            )


def _judge_backups(table: RankTable, variables: Mapping[str, str]) -> Iterator[RankTableFault]:
    """A backup is the other die of the same NPU; it matters only where operators are run again."""
    severity = Severity.WARNING if retries_operators(variables) else Severity.INFO
    owners = {
        device.ip: (server.id, device) for server in table.servers for device in server.devices if device.ip
    }
    for server in table.servers:
        for device in server.devices:
            at = owners.get(device.backup_ip) if device.backup_ip else None
            if device.backup_ip and not is_address(device.backup_ip):
                yield _bad_address(f"{device.where}.backup_device_ip", device.backup_ip)
            # Two dies share an NPU: device ids 2n and 2n+1 (A3).
            elif at and (at[0] != server.id or device.id is None or at[1].id != device.id ^ 1):
                yield RankTableFault(
                    "backup",
                    _(
                        "{place}.backup_device_ip does not belong to the other die of the same NPU",
                        place=device.where,
                    ),
                    severity,
                )
            elif at and device.ports.get("backup_device_port", -1) == at[1].ports.get("device_port", -2):
                yield RankTableFault(
                    "backup",
                    _(
                        "{place}.backup_device_port equals the device_port of the die that has "
                        "backup_device_ip",
                        place=device.where,
                    ),
                    severity,
                )
