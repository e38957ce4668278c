"""What must hold of the network ports of a machine's NPUs: the file, the ports themselves, both together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Optional

from npudoctor import ERROR, WARNING, Action, Command, Finding, Fix, Risk, Severity, _
from npudoctor.core.frozen import dataclass
from npudoctor.host.devices.hccn import NAME, Port
from npudoctor.host.devices.hccnconf import CONF, HccnConf, is_address, is_in_network, is_netmask

# Keys of /etc/hccn.conf whose value is an IP address; each is followed by _N, the physical id of the NPU.
ADDRESSES = ("address", "gateway", "netdetect")
# With one of these the port gets its address by DHCP, and address_N is not applied.
DHCP = ("udhcpc_enable", "udhcpc_ipv6_enable")
WELL = ("Success", "Init", "Detect ip set", "Unknown")  # Init: no address was given to look for


@dataclass(frozen=True)
class PortAddress:
    """The address, netmask and gateway of one port, from the port itself, else from the file."""

    device: int
    address: str
    netmask: str
    gateway: str


@dataclass(frozen=True)
class HccnMachine:
    """What is known of the NPUs' network ports. `ports` is empty if hccn_tool was not run. `has_peers`: the
    job has several nodes. `sees_all`: a file that is missing does not exist; False in a container and where
    it cannot be read."""

    devices: Sequence[int]
    conf: Optional[HccnConf]
    ports: Sequence[Port]
    program: str
    has_peers: bool
    sees_all: bool = True

    @property
    def severity(self) -> Severity:
        """The severity of a faulty port: it ends a job of several nodes; on one node the NPUs connect over
        other links."""
        return ERROR if self.has_peers else WARNING

    def settings(self) -> list[PortAddress]:
        """Return the settings of each device that has an address."""
        ports = {port.device: port for port in self.ports}
        settings = []
        for device in self.devices:
            answers = {
                name: (ports[device].get(name) if device in ports else "")
                or ((self.conf.get(device, name) if self.conf else None) or "")
                for name in ("address", "netmask", "gateway")
            }
            if answers["address"]:
                settings.append(PortAddress(device, **answers))
        return settings


def findings(machine: HccnMachine) -> Iterator[Finding]:
    """Yield every finding about the file, the ports, and the two together."""
    settings = machine.settings()
    yield from _judge_values(machine)
    yield from _judge_tls(machine)
    if not settings:
        # A single node or a super pod connects over other links, so ports without addresses are a fault only
        # with --peers.
        if machine.has_peers and machine.ports:
            yield _finding("not-set-up", _("no NPU of this machine has an address, but the job has peers"))
        return
    lacking = sorted(set(machine.devices) - {setting.device for setting in settings})
    # Without hccn_tool it is unknown whether a port has an address that the file does not name.
    if lacking and machine.ports:
        message = _("NPU {devices} have no address, but {others} have one")
        addressed = _list_first(setting.device for setting in settings)
        message = message.format(devices=_list_first(lacking), others=addressed)
        yield _finding("no-address", message, machine.severity, lacking)
    owners: dict[str, list[int]] = {}
    for setting in settings:
        owners.setdefault(setting.address, []).append(setting.device)
    for address, devices in owners.items():
        if len(devices) > 1:
            template = _("NPU {devices} have the same address {address}")
            template = template.format(devices=_list_first(devices), address=address)
            yield _finding("duplicate-address", template, machine.severity, devices)
    yield from _judge_gateways(settings)
    yield from _find_not_applied(machine)
    yield from _find_not_saved(machine)
    yield from _judge_links(machine, {setting.device for setting in settings})


def _judge_gateways(settings: Sequence[PortAddress]) -> Iterator[Finding]:
    outside = [
        setting
        for setting in settings
        if not is_in_network(setting.gateway, setting.address, setting.netmask)
    ]
    if outside:
        text = _("the gateway of NPU {devices} is not in its network: {what}")
        routes = [f"{setting.address}/{setting.netmask} -> {setting.gateway}" for setting in outside]
        devices = [setting.device for setting in outside]
        text = text.format(devices=_list_first(devices), what=_list_first(routes, 2))
        yield _finding("gateway", text, devices=devices, evidence=tuple(routes))


def _find_not_applied(machine: HccnMachine) -> Iterator[Finding]:
    """Report ports whose address differs from the file, which is applied at the next start. With DHCP the
    file does not set the address."""
    conf, differing, lines = machine.conf, [], []
    for port in machine.ports if conf else ():
        if conf is None or port.replies["ip"].kind not in ("told", "unset"):
            continue
        if any(name in conf.devices.get(port.device, {}) for name in DHCP):
            continue
        for name in ("address", "netmask"):
            stated = conf.get(port.device, name)
            is_valid = is_netmask if name == "netmask" else is_address
            answer = port.replies["ip"].answer
            # A port may have several addresses.
            values = answer.stdout.replace(":", " ").split() if answer else []
            if stated and is_valid(stated) and stated not in values:
                real = port.get(name) or "-"
                lines.append(f"{name}_{port.device}={stated} ({NAME}: {real})")
                differing.append(port.device)
    if differing:
        devices = sorted(set(differing))
        text = _("The settings of NPU {devices} differ from {conf}: {what}")
        text = text.format(devices=_list_first(devices), conf=CONF, what=_list_first(lines, 2))
        steps = tuple(Command((machine.program, "-i", str(device), "-cfg", "recovery")) for device in devices)
        fix = Fix(_("apply the file to the ports; no job may be using them"), steps, risk=Risk.MANUAL)
        yield _finding("not-applied", text, machine.severity, devices, tuple(lines), fix)


def _find_not_saved(machine: HccnMachine) -> Iterator[Finding]:
    """Report addresses that only the port has: they are lost at the next boot. Not in a container without the
    file."""
    if machine.conf is None and not machine.sees_all:
        return
    unsaved = []
    for port in machine.ports:
        if port.replies["ip"].kind == "told":
            settings = machine.conf.devices.get(port.device, {}) if machine.conf else {}
            address = port.get("address")
            # Nothing is lost if the file has another address for the port or if DHCP assigns it.
            is_saved = any(settings.get(name) for name in ("address", *DHCP)) or address in settings.values()
            # Link-local addresses (fe80::/10 and RFC 3927) come up by themselves and are no loss.
            if not is_saved and is_address(address) and not address.lower().startswith(("fe80:", "169.254.")):
                unsaved.append(port)
    if unsaved:
        text = _("NPU {devices} will lose the address at the next boot: {what} is not in {conf}")
        lines = [f"address_{port.device}={port.get('address')}" for port in unsaved]
        devices = [port.device for port in unsaved]
        text = text.format(devices=_list_first(devices), conf=CONF, what=_list_first(lines, 2))
        steps = tuple(
            Command(
                (
                    *(machine.program, "-i", str(port.device), "-ip", "-s"),
                    *("address", port.get("address"), "netmask", port.get("netmask")),
                )
            )
            for port in unsaved
            if port.get("netmask")
        )
        fix = Fix(_("set and save it with hccn_tool; no job may be using the ports"), steps, risk=Risk.MANUAL)
        yield _finding("not-saved", text, WARNING, devices, tuple(lines), fix)


def _judge_links(machine: HccnMachine, addressed: set[int]) -> Iterator[Finding]:
    ports = [port for port in machine.ports if port.device in addressed]
    down = [port.device for port in ports if port.get("link").upper() == "DOWN"]
    if down:
        text = _("the network link of NPU {devices} is down", devices=_list_first(down))
        yield _finding("link-down", text, machine.severity, down, action=Action.CONTACT)
    devices_by_health: dict[str, list[int]] = {}
    for port in ports:
        if port.get("health") not in ("", *WELL):
            devices_by_health.setdefault(port.get("health"), []).append(port.device)
    for health, devices in devices_by_health.items():
        text = _("the network health of NPU {devices} is {health}")
        text = text.format(devices=_list_first(devices), health=health)
        # Without a link the port cannot reach its netdetect address either.
        echo = ("hccn-config.link-down",) if set(devices) <= set(down) else ()
        detects = {
            f"netdetect_{port.device}": port.get("netdetect") for port in ports if port.device in devices
        }
        lines = tuple(f"{name}={value}" for name, value in detects.items() if value)
        yield _finding("unhealthy", text, devices=devices, evidence=lines, echo_of=echo)


def _judge_values(machine: HccnMachine) -> Iterator[Finding]:
    """Report values of the file that are not addresses or netmasks, and keys with two values."""
    conf = machine.conf
    invalid: list[str] = []
    for device in machine.devices if conf else ():
        for name in (*ADDRESSES, "netmask"):
            value = conf.get(device, name) if conf else None
            is_valid = is_netmask if name == "netmask" else is_address
            if value and not is_valid(value):
                invalid.append(f"{name}_{device}={value[:60]}")
    if invalid:
        text = _("{conf} has invalid values: {what}", conf=CONF, what=_list_first(invalid))
        yield _finding("bad-value", text, machine.severity, evidence=tuple(invalid))
    clashes = conf.conflicts if conf else ()
    names = [key for key in clashes if key.rpartition("_")[0] in (*ADDRESSES, "netmask")]
    if names:
        text = _("{conf} has two values for each of {names}", conf=CONF, names=_list_first(names))
        yield _finding("clash", text)


def _judge_tls(machine: HccnMachine) -> Iterator[Finding]:
    by_switch: dict[str, list[int]] = {}
    for port in machine.ports:
        if port.get("tls"):
            by_switch.setdefault(port.get("tls"), []).append(port.device)
    if len(by_switch) < 2:
        return
    # The minority is changed: TLS must be the same on every NPU of a communicator (HCCL user guide).
    few, many = sorted(by_switch, key=lambda switch: (len(by_switch[switch]), switch))
    text = _("TLS is on for NPU {on} and off for {off}: they cannot connect to each other")
    text = text.format(on=_list_first(by_switch["1"]), off=_list_first(by_switch["0"]))
    fix = Fix(
        _("set TLS as on the other NPUs, and the same on every node"),
        tuple(_tls_command(machine.program, device, many) for device in by_switch[few]),
        tuple(
            line for device in by_switch[few] for line in _tls_command(machine.program, device, few).lines()
        ),
        Risk.MANUAL,
    )
    yield _finding("tls-differs", text, devices=by_switch[few], fix=fix)


def _tls_command(program: str, device: int, value: str) -> Command:
    return Command((program, "-i", str(device), "-tls", "-s", "enable", value))


def _list_first(values: Iterable[object], most: int = 16) -> str:
    words = [str(value) for value in values]
    return ", ".join(words[:most]) + (f" (+{len(words) - most})" if len(words) > most else "")


def _finding(
    code: str,
    message: str,
    severity: Optional[Severity] = None,
    devices: Sequence[int] = (),
    evidence: tuple[str, ...] = (),
    fix: Optional[Fix] = None,
    *,
    action: Action = Action.CONFIG,
    echo_of: tuple[str, ...] = (),
) -> Finding:
    return Finding(
        f"hccn-config.{code}",
        message,
        severity=severity,
        evidence=evidence,
        device=f"/dev/davinci{devices[0]}" if len(devices) == 1 else None,
        action=action,
        fix=fix,
        echo_of=echo_of,
    )


def facts(machine: HccnMachine) -> Mapping[str, object]:
    """Return what each port has, as facts of the report."""
    names = ("address", "netmask", "gateway", "netdetect", "link", "health", "tls", "mtu")
    ports: dict[str, object] = {}
    for port in machine.ports:
        values = {name: port.get(name) for name in names if port.get(name)}
        odd = {
            f"-{name}": reply.kind
            for name, reply in port.replies.items()
            if reply.kind not in ("told", "unset")
        }
        ports[f"npu/{port.device}"] = {**values, **odd}
    return ports
