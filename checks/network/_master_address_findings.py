"""The words of the check master-address."""

from __future__ import annotations

from collections.abc import Sequence

from npudoctor import Action, Export, Finding, Fix, Risk, Severity, _

LONGEST = 80  # of a value that is shown


def bad_value(variable: str, value: str, meant: str, severity: Severity) -> Finding:
    """What can be neither looked up nor connected to."""
    text = _("{variable} is {value}, which is neither an IP address nor a host name")
    return _finding(
        "bad-value", text.format(variable=variable, value=value[:LONGEST]), severity, variable, meant
    )


def bad_port(name: str, value: str, why: str, severity: Severity) -> Finding:
    """A port that is none; hccl-ports says the same of those that would be bound here."""
    text = _("{variable}={value} names no port: {why}")
    message = text.format(variable=name, value=value[:LONGEST], why=why)
    return Finding(
        "master-address.bad-port",
        message,
        severity=severity,
        action=Action.CONFIG,
        echo_of=("hccl-ports.bad-value",),
    )


def unresolvable(variable: str, place: str, severity: Severity) -> Finding:
    """A name that nobody knows."""
    text = _("{variable} is {value}, and no address of that name is known here")
    return _finding("unresolvable", text.format(variable=variable, value=place), severity)


def ipv6(variable: str, place: str, addresses: Sequence[str], severity: Severity) -> Finding:
    """MindSpore's scheduler has no IPv6."""
    text = _("{variable} is {value}: MindSpore's scheduler takes no IPv6 address")
    return _finding("ipv6", _told(text, variable, place, addresses), severity)


def loopback(variable: str, place: str, better: str, severity: Severity) -> Finding:
    """Every node would connect to itself."""
    text = _("{variable} is {value}: each of the job's nodes would look for the master on itself")
    return _finding("loopback", text.format(variable=variable, value=place), severity, variable, better)


def own_name(variable: str, place: str, addresses: Sequence[str], better: str, severity: Severity) -> Finding:
    """Our own name, which only here means a loopback address."""
    text = _("{variable} is {value}, our own name, which here is {addresses}, not the address of a NIC")
    message = text.format(variable=variable, value=place, addresses=", ".join(addresses[:4]))
    return _finding("own-name", message, severity, variable, better)


def not_ours(variable: str, place: str, addresses: Sequence[str], better: str, severity: Severity) -> Finding:
    """Rank 0 is here, its address elsewhere."""
    text = _("{variable} is {value}, which is no address of this machine, and rank 0 is here")
    message = _told(text, variable, place, addresses)
    return _finding("not-ours", message, severity, variable, better)


def inner(variable: str, place: str, interface: str, better: str, severity: Severity) -> Finding:
    """An address for what runs on this machine only."""
    text = _("{variable} is {value}, the address of {interface}, which other nodes cannot reach")
    message = text.format(variable=variable, value=place, interface=interface)
    return _finding("inner", message, severity, variable, better)


def no_way(variable: str, place: str, addresses: Sequence[str], severity: Severity) -> Finding:
    """No route leads there."""
    text = _("{variable} is {value}, to which this machine has no route")
    return _finding("no-way", _told(text, variable, place, addresses), severity)


def _told(text: str, variable: str, place: str, addresses: Sequence[str]) -> str:
    """The sentence, with what a name means behind it."""
    meaning = ", ".join(addresses[:4])
    return text.format(variable=variable, value=place if meaning == place else f"{place} ({meaning})")


def _finding(code: str, message: str, severity: Severity, variable: str = "", better: str = "") -> Finding:
    fix = None
    if better and variable and variable != "PADDLE_MASTER":
        title = _("Set the master's address, the same on every node")
        fix = Fix(title, (Export(variable, better),), risk=Risk.MANUAL, needs_root=False)
    return Finding(f"master-address.{code}", message, severity=severity, action=Action.CONFIG, fix=fix)
