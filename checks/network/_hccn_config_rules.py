"""What must hold of the network ports of a machine's NPUs: the file, the ports themselves, both together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Optional

from npudoctor import ERROR, WARNING, Action, Command, Finding, Fix, Risk, Severity, _
from npudoctor.core.frozen import dataclass
from npudoctor.host.devices.hccn import NAME, Port
from npudoctor.host.devices.hccnconf import CONF, HccnConf, is_address, is_in_network, is_netmask

ADDRESSES = ("address", "gateway", "netdetect")
DHCP = ("udhcpc_enable", "udhcpc_ipv6_enable")
WELL = ("Success", "Init", "Detect ip set", "Unknown")  # Init: no address was given to look for


@dataclass(frozen=True)
class Setting:
    """The address of one port and what goes with it, from the port itself or else from the file."""

    device: int
    address: str
    netmask: str
    gateway: str


@dataclass(frozen=True)
class Machine:
    """All that is known. `ports` is empty where the tool was not asked. `several`: nodes meet in the job.
    `sees_all`: a file that is not here does not exist; False in a container, and where it cannot be read."""

    devices: Sequence[int]
    conf: Optional[HccnConf]
    ports: Sequence[Port]
    program: str
    several: bool
    sees_all: bool = True

    @property
    def severity(self) -> Severity:
        """A fault of a port ends a job of several nodes; one node may meet over other links."""
        return ERROR if self.several else WARNING

    def settings(self) -> list[Setting]:
        """One for each device that has an address."""
        ports = {port.device: port for port in self.ports}
        settings = []
        for device in self.devices:
            answers = {
                name: (ports[device].get(name) if device in ports else "")
                or ((self.conf.get(device, name) if self.conf else None) or "")
                for name in ("address", "netmask", "gateway")
            }
            if answers["address"]:
                settings.append(Setting(device, **answers))
        return settings


def findings(machine: Machine) -> Iterator[Finding]:
    """All that is wrong."""
    settings = machine.settings()
    yield from _values(machine)
    yield from _tls(machine)
    if not settings:
        if machine.several and machine.ports:
            yield _finding("not-set-up", _("no NPU of this machine has an address, but the job has peers"))
        return
    lacking = sorted(set(machine.devices) - {setting.device for setting in settings})
    # Without the tool nobody knows what a port has that the file does not name.
    if lacking and machine.ports:
        message = _("NPU {devices} have no address, but {others} have one")
        others = _few(setting.device for setting in settings)
        message = message.format(devices=_few(lacking), others=others)
        yield _finding("no-address", message, machine.severity, lacking)
    owners: dict[str, list[int]] = {}
    for setting in settings:
        owners.setdefault(setting.address, []).append(setting.device)
    for address, devices in owners.items():
        if len(devices) > 1:
            template = _("NPU {devices} have the same address {address}")
            template = template.format(devices=_few(devices), address=address)
            yield _finding("duplicate-address", template, machine.severity, devices)
    yield from _gateways(settings)
    yield from _not_applied(machine)
    yield from _not_saved(machine)
    yield from _links(machine, {setting.device for setting in settings})


def _gateways(settings: Sequence[Setting]) -> Iterator[Finding]:
    outside = [
        setting
        for setting in settings
        if not is_in_network(setting.gateway, setting.address, setting.netmask)
    ]
    if outside:
        text = _("the gateway of NPU {devices} is not in its network: {what}")
        routes = [f"{setting.address}/{setting.netmask} -> {setting.gateway}" for setting in outside]
        devices = [setting.device for setting in outside]
        text = text.format(devices=_few(devices), what=_few(routes, 2))
        yield _finding("gateway", text, devices=devices, evidence=tuple(routes))


def _not_applied(machine: Machine) -> Iterator[Finding]:
    """The file is what the port gets at the next start; with DHCP it says nothing of the address."""
    conf, wrong, lines = machine.conf, [], []
    for port in machine.ports if conf else ():
        if conf is None or port.replies["ip"].kind not in ("told", "unset"):
            continue
        if any(name in conf.devices.get(port.device, {}) for name in DHCP):
            continue
        for name in ("address", "netmask"):
            stated = conf.get(port.device, name)
            right = is_netmask if name == "netmask" else is_address
            answer = port.replies["ip"].answer
            # A port may have several addresses.
            values = answer.stdout.replace(":", " ").split() if answer else []
            if stated and right(stated) and stated not in values:
                real = port.get(name) or "-"
                lines.append(f"{name}_{port.device}={stated} ({NAME}: {real})")
                wrong.append(port.device)
    if wrong:
        devices = sorted(set(wrong))
        text = _("The settings of NPU {devices} differ from {conf}: {what}")
        text = text.format(devices=_few(devices), conf=CONF, what=_few(lines, 2))
        steps = tuple(Command((machine.program, "-i", str(device), "-cfg", "recovery")) for device in devices)
        fix = Fix(_("apply the file to the ports; no job may be using them"), steps, risk=Risk.MANUAL)
        yield _finding("not-applied", text, machine.severity, devices, tuple(lines), fix)


def _not_saved(machine: Machine) -> Iterator[Finding]:
    """An address that only the port itself has. A container need not be given the file."""
    if machine.conf is None and not machine.sees_all:
        return
    lost = []
    for port in machine.ports:
        if port.replies["ip"].kind == "told":
            settings = machine.conf.devices.get(port.device, {}) if machine.conf else {}
            address = port.get("address")
            # What the file says otherwise, and leases, are no loss.
            kept = any(settings.get(name) for name in ("address", *DHCP)) or address in settings.values()
            if not kept and is_address(address) and not address.lower().startswith(("fe80:", "169.254.")):
                lost.append(port)
    if lost:
        text = _("NPU {devices} will lose the address at the next boot: {what} is not in {conf}")
        lines = [f"address_{port.device}={port.get('address')}" for port in lost]
        devices = [port.device for port in lost]
        text = text.format(devices=_few(devices), conf=CONF, what=_few(lines, 2))
        steps = tuple(
            Command(
                (
                    *(machine.program, "-i", str(port.device), "-ip", "-s"),
                    *("address", port.get("address"), "netmask", port.get("netmask")),
                )
            )
            for port in lost
            if port.get("netmask")
        )
        fix = Fix(_("set and save it with hccn_tool; no job may be using the ports"), steps, risk=Risk.MANUAL)
        yield _finding("not-saved", text, WARNING, devices, tuple(lines), fix)


def _links(machine: Machine, addressed: set[int]) -> Iterator[Finding]:
    ports = [port for port in machine.ports if port.device in addressed]
    down = [port.device for port in ports if port.get("link").upper() == "DOWN"]
    if down:
        text = _("the network link of NPU {devices} is down", devices=_few(down))
        yield _finding("link-down", text, machine.severity, down, action=Action.CONTACT)
    ill: dict[str, list[int]] = {}
    for port in ports:
        if port.get("health") not in ("", *WELL):
            ill.setdefault(port.get("health"), []).append(port.device)
    for health, devices in ill.items():
        text = _("the network health of NPU {devices} is {health}")
        text = text.format(devices=_few(devices), health=health)
        echo = ("hccn-config.link-down",) if set(devices) <= set(down) else ()
        detects = {
            f"netdetect_{port.device}": port.get("netdetect") for port in ports if port.device in devices
        }
        lines = tuple(f"{name}={value}" for name, value in detects.items() if value)
        yield _finding("unhealthy", text, devices=devices, evidence=lines, echo_of=echo)


def _values(machine: Machine) -> Iterator[Finding]:
    """What is written in the file and cannot be used as it is."""
    conf = machine.conf
    bad: list[str] = []
    for device in machine.devices if conf else ():
        for name in (*ADDRESSES, "netmask"):
            value = conf.get(device, name) if conf else None
            right = is_netmask if name == "netmask" else is_address
            if value and not right(value):
                bad.append(f"{name}_{device}={value[:60]}")
    if bad:
        text = _("{conf} has invalid values: {what}", conf=CONF, what=_few(bad))
        yield _finding("bad-value", text, machine.severity, evidence=tuple(bad))
    clashes = conf.conflicts if conf else ()
    names = [key for key in clashes if key.rpartition("_")[0] in (*ADDRESSES, "netmask")]
    if names:
        text = _("{conf} has two values for each of {names}", conf=CONF, names=_few(names))
        yield _finding("clash", text)


def _tls(machine: Machine) -> Iterator[Finding]:
    by_switch: dict[str, list[int]] = {}
    for port in machine.ports:
        if port.get("tls"):
            by_switch.setdefault(port.get("tls"), []).append(port.device)
    if len(by_switch) < 2:
        return
    few, many = sorted(by_switch, key=lambda switch: (len(by_switch[switch]), switch))
    text = _("TLS is on for NPU {on} and off for {off}: they cannot connect to each other")
    text = text.format(on=_few(by_switch["1"]), off=_few(by_switch["0"]))
    fix = Fix(
        _("set TLS as on the other NPUs, and the same on every node"),
        tuple(_switch(machine.program, device, many) for device in by_switch[few]),
        tuple(line for device in by_switch[few] for line in _switch(machine.program, device, few).lines()),
        Risk.MANUAL,
    )
    yield _finding("tls-differs", text, devices=by_switch[few], fix=fix)


def _switch(program: str, device: int, value: str) -> Command:
    return Command((program, "-i", str(device), "-tls", "-s", "enable", value))


def _few(values: Iterable[object], most: int = 16) -> str:
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


def facts(machine: Machine) -> Mapping[str, object]:
    """What each port has, for machines."""
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
