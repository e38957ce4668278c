"""One variable of master-address: what it means, and what is wrong with that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor import ERROR, INFO, WARNING, Finding, Host, Severity
from npudoctor.checks.network import _master_address_findings as say
from npudoctor.core.frozen import dataclass
from npudoctor.core.ports import parse_port
from npudoctor.facts.job.expected_accelerator import meant_for_other_machines
from npudoctor.facts.job.input_cleanup import cleaned_up
from npudoctor.facts.job.local_addresses import is_local, same_host
from npudoctor.facts.job.nodes import is_rank_zero
from npudoctor.facts.job.peers import several_nodes

# The port beside an address, and the lowest that is taken; PADDLE_MASTER has it inside.
_PORTS = {
    "MASTER_ADDR": ("MASTER_PORT", 0),
    "MS_SCHED_HOST": ("MS_SCHED_PORT", 1024),
    "CM_CHIEF_IP": ("CM_CHIEF_PORT", 0),
}
_SCHEMES = ("etcd://", "http://")  # which paddle.distributed.launch takes before it
_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")


@dataclass(frozen=True)
class Answer:
    """What is wrong, what the value means, and whether nobody said that in time."""

    findings: tuple[Finding, ...]
    addresses: tuple[str, ...] = ()
    silent: bool = False


def judge(host: Host, variable: str, value: str) -> Answer:
    """All about one variable."""
    place, port_name, port = _parts(host, variable, value)
    found = [] if port is None else list(_port(host, port_name, port, variable))
    address = _address(place)
    if address is None and not _is_name(place):
        return Answer((*found, say.bad_value(variable, value, _meant(value), _weight(host, ERROR))))
    meaning = host.names.meaning(place) if address is None else None
    if meaning is not None and not meaning.addresses:
        if meaning.failed != "none":
            return Answer(tuple(found), silent=True)
        return Answer((*found, say.unresolvable(variable, place, _weight(host, ERROR))))
    addresses = (address,) if meaning is None and address else meaning.addresses if meaning else ()
    seen = tuple(dict.fromkeys(addresses))
    wrong = next(_wrong(host, variable, place, seen), None)
    return Answer((*found, *([wrong] if wrong else [])), seen)


def _parts(host: Host, variable: str, value: str) -> tuple[str, str, Optional[str]]:
    """The host, and the port with the variable that names it."""
    if variable != "PADDLE_MASTER":
        name, _lowest = _PORTS[variable]
        return value, name, host.variables.get(name) or None
    scheme = next((one for one in _SCHEMES if value.startswith(one)), "")
    place, colon, port = value[len(scheme) :].rpartition(":")
    if not colon or (":" in place and not place.endswith("]")):
        return value, variable, None
    return place.strip("[]"), variable, port


def _port(host: Host, name: str, value: str, variable: str) -> Iterator[Finding]:
    lowest = _PORTS.get(variable, ("", 1))[1]
    try:
        parse_port(value, lowest)
    except ValueError as error:
        yield say.bad_port(name, value, str(error), _weight(host, ERROR))


def _address(text: str) -> Optional[str]:
    """The usual spelling of an IP address, without its zone; None for brackets, which no resolver takes."""
    import ipaddress

    try:
        return str(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return None


def _is_name(text: str) -> bool:
    """Whether it could be a host name; four numbers that are no address are none."""
    if len(text) > 253 or not set(text.lower()) <= _IN_NAMES or text.startswith(("-", ".")):
        return False
    return bool(set(text.lower()) - set("0123456789."))


def _meant(value: str) -> str:
    """The value without what a document or a browser puts around it; empty where that is no address."""
    plain = cleaned_up(value).rpartition("//")[2].rstrip("/")
    place, colon, port = plain.rpartition(":")
    if colon and port.isdigit() and ":" not in place.strip("[]"):
        plain = place
    plain = plain.strip("[]")
    return plain if plain != value and (_address(plain) or _is_name(plain)) else ""


def _wrong(host: Host, variable: str, place: str, addresses: Sequence[str]) -> Iterator[Finding]:
    """What is wrong with the address; the first is what matters."""
    several, first = several_nodes(host), is_rank_zero(host)
    ours = [one for one in addresses if is_local(host, one)]
    idle = [one for one in addresses if _is_loopback(one)]
    if variable == "MS_SCHED_HOST" and all(":" in one for one in addresses):
        yield say.ipv6(variable, place, addresses, _weight(host, ERROR))
    if len(idle) == len(addresses):
        if several and same_host(place.lower(), host.system.name.lower()):
            yield say.own_name(variable, place, addresses, _better(host, True), _weight(host, WARNING))
        elif several:
            yield say.loopback(variable, place, _better(host, first), _weight(host, ERROR))
        return
    if first and not ours:
        worst = WARNING if host.system.container() else ERROR
        yield say.not_ours(variable, place, addresses, _better(host, True), _weight(host, worst))
    inner = [owner.name for one in ours for owner in [host.network.owner_of(one)] if owner and owner.inner]
    if several and ours and len(inner) == len(addresses):
        yield say.inner(variable, place, inner[0], _better(host, True), _weight(host, WARNING))
    if not ours and not any(_reachable(host, one) for one in addresses):
        yield say.no_way(variable, place, addresses, _weight(host, ERROR))


def _reachable(host: Host, address: str) -> bool:
    """Whether there is a way; link-local addresses need more than an address to tell."""
    return address.lower().startswith("fe80") or host.network.route_to(address) is not None


def _is_loopback(address: str) -> bool:
    """Whether a packet to it never leaves the machine: loopback, or the unspecified address."""
    import ipaddress

    number = ipaddress.ip_address(address.partition("%")[0])
    return number.is_loopback or number.is_unspecified


def _better(host: Host, here: bool) -> str:
    """An address of ours that others may reach, where the master is here."""
    return next(
        (
            address.text
            for one in host.network.interfaces()
            if here and one.alive and not one.inner
            for address in one.addresses
            if address.scope == "global" and not address.ipv6
        ),
        "",
    )


def _weight(host: Host, severity: Severity) -> Severity:
    return INFO if meant_for_other_machines(host) else severity
