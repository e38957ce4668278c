"""The ways out of trial-rendezvous: another address, a loopback interface that works, a name for us."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import NamedTuple, Optional

from npudoctor import Command, Export, Fix, Host, Risk, SetKernel, _
from npudoctor.checks.trial._rendezvous_points import LOOPBACK
from npudoctor.core.errors import CannotTell
from npudoctor.facts.job.nodes import is_loopback
from npudoctor.host.network.interfaces import Interface
from npudoctor.trial.trials import Attempt

LEAST_MTU, USUAL_MTU = 68, 65536  # of IPv4, which a smaller one takes away; of lo
# Disciplines of the kernel's own choice, which let all pass; noop is that of an interface that is off.
PASSING = ("", "noqueue", "noop", "pfifo_fast", "fq_codel", "fq", "mq")
NO_ROUTE = (errno.EACCES, errno.EINVAL, errno.ENETUNREACH, errno.EHOSTUNREACH)
SWITCH = "net.ipv6.conf.{name}.disable_ipv6"


def meet_on_loopback(variable: str) -> Fix:
    """A job of one node can meet on an address that needs nobody to look it up."""
    title = _("for a job on this node alone, use an address that needs no name server")
    return Fix(title, (Export(variable, LOOPBACK),), risk=Risk.MANUAL, needs_root=False)


def use_address(variable: str, address: str) -> Fix:
    """An address needs no resolver; which one it is may not be known."""
    title = _("use the address of the first rank's machine instead of its name, the same on every node")
    steps = (Export(variable, address),) if address else ()
    return Fix(title, steps, risk=Risk.MANUAL, needs_root=False)


def obstacle(
    host: Host, addresses: Sequence[str], attempt: Attempt, variable: str = ""
) -> tuple[tuple[str, ...], Optional[Fix]]:
    """Packets to any of our own addresses go by lo: what is wrong with it, and the line that heals it."""
    there = interfaces(host)
    if there is None:
        return (), None
    interface = next((one for one in there if one.loopback), None)
    if interface is None:
        return (_("there is no loopback interface"),), None
    evidence: tuple[str, ...] = (interface.description,)
    name = interface.name
    if not interface.up:
        title = _("bring {name} up", name=name)
        if len(there) == 1:
            title = _("bring {name} up in the network namespace in which the job starts", name=name)
        return evidence, _typed(title, ("ip", "link", "set", "dev", name, "up"))
    lacking = _without_address(host, interface, addresses, variable)
    if lacking is not None:
        return evidence, lacking
    if interface.queue not in PASSING and attempt.number == errno.ETIMEDOUT:
        evidence = (*evidence, f"`tc qdisc show dev {name}: qdisc {interface.queue}`")
        title = _("remove the queueing discipline that holds back traffic on {name}", name=name)
        return evidence, _typed(title, ("tc", "qdisc", "del", "dev", name, "root"))
    if attempt.number in NO_ROUTE:
        title = _(
            "find what blocks the route to {address}: a line with prohibit, unreachable or blackhole in "
            "`ip rule` or `ip route show table all`; it must come after the table local",
            address=addresses[0],
        )
    else:
        title = _(
            "let this machine's firewall accept traffic on {name} before any other rule, including nat "
            "rules: see `nft list ruleset` and `iptables-legacy-save`",
            name=name,
        )
    return evidence, Fix(title, risk=Risk.MANUAL)


def _without_address(
    host: Host, interface: Interface, addresses: Sequence[str], variable: str
) -> Optional[Fix]:
    """The loopback interface that has not the address; None where it has."""
    name, steps = interface.name, []
    loopback = [text for text in addresses if is_loopback(text)] or [LOOPBACK]
    if all(":" in text for text in loopback):
        if any(own.ipv6 for own in interface.addresses):
            return None
        if variable:
            return meet_on_loopback(variable)
        return Fix(_("enable IPv6"), (SetKernel(SWITCH.format(name=name), "0", "1"),), risk=Risk.MANUAL)
    if any(_holds(own.text, own.length, text) for own in interface.addresses for text in loopback):
        return None
    mtu = host.network.mtu_of(name)
    if mtu is not None and mtu < LEAST_MTU:
        steps.append(Command(("ip", "link", "set", "dev", name, "mtu", str(USUAL_MTU))))
    steps.append(Command(("ip", "address", "add", f"{LOOPBACK}/8", "dev", name)))
    return Fix(_("restore the address of {name}", name=name), tuple(steps), risk=Risk.MANUAL)


def _holds(own: str, length: int, address: str) -> bool:
    """Whether an address of an interface, with its prefix, makes another one local, as 127.0.0.1/8 does."""
    import ipaddress

    if ":" in own or ":" in address or not is_loopback(address):
        return False
    return ipaddress.ip_address(address) in ipaddress.ip_interface(f"{own}/{length}").network


def _typed(title: str, line: tuple[str, ...]) -> Fix:
    return Fix(title, (Command(line),), risk=Risk.MANUAL)


def interfaces(host: Host) -> Optional[Sequence[Interface]]:
    """Those of this network namespace; None where the kernel does not tell: a finding is told without."""
    try:
        return host.network.interfaces()
    except CannotTell:
        return None


class Unusable(NamedTuple):
    """An interface has an address, and no socket can be bound to it: which, why, and what heals it."""

    interface: str
    why: str
    fix: Fix


def find_unusable(host: Host, addresses: Sequence[str]) -> Optional[Unusable]:
    """Of addresses to which no socket can be bound, one that an interface has: IPv6 found it taken, or its
    local route is gone, as when somebody flushes the table."""
    for interface in interfaces(host) or ():
        for own in interface.addresses:
            if own.text not in addresses:
                continue
            name = interface.name
            if not own.is_ready:
                why = _("another machine has it too, or duplicate address detection is not finished")
                title = _(
                    "give one of the two machines another address: ip -6 addr show {interface}",
                    interface=name,
                )
                return Unusable(name, why, Fix(title, risk=Risk.MANUAL))
            if interface.up:
                title = _("restore the local route of {address}", address=own.text)
                words = ("ip", "route", "add", "local", own.text, "dev", name, "table", "local")
                return Unusable(name, _("the kernel has no local route to it"), _typed(title, words))
    return None


def open_the_way(place: str, port: int) -> Fix:
    """Nothing that could be typed here."""
    title = _(
        "allow TCP port {port} in the network between the nodes and in the firewall of {place}",
        place=place,
        port=port,
    )
    return Fix(title, risk=Risk.MANUAL)


def own_address(host: Host, variable: str) -> Fix:
    """Whoever listens on one address needs one of ours."""
    found = _outward(host)
    title = _("if the first rank runs here, use an address of this machine, the same on every node")
    step = Export(variable, found[1] if found else LOOPBACK)
    return Fix(title, (step,), risk=Risk.MANUAL, needs_root=False)


def _outward(host: Host) -> Optional[tuple[str, str]]:
    """An interface that others may reach, and its address."""
    return next(
        (
            (interface.name, address.text)
            for interface in interfaces(host) or ()
            if interface.is_alive and not interface.is_internal and not interface.loopback
            for address in interface.addresses
            if address.scope == "global" and not address.ipv6
        ),
        None,
    )


def name_interface(host: Host, several: bool = True) -> Optional[Fix]:
    """Gloo asks for no name where its interface is named."""
    found = _outward(host)
    if not several:
        title = _("for a job on this node alone, let Gloo use the loopback interface")
        return Fix(title, (Export("GLOO_SOCKET_IFNAME", "lo"),), risk=Risk.MANUAL, needs_root=False)
    if found is None:
        return None
    title = _("on each node, set Gloo's interface to the one that leads to the others")
    return Fix(title, (Export("GLOO_SOCKET_IFNAME", found[0]),), risk=Risk.MANUAL, needs_root=False)


def write_hosts_line(host: Host, name: str, address: str = "") -> Fix:
    """The file is asked before any name server."""
    found = _outward(host)
    line = f"{address or (found[1] if found else LOOPBACK)} {name}"
    # The kernel lets a host have any name; nobody is to paste one that a shell would run.
    plain = name.isascii() and name.replace("-", "").replace(".", "").isalnum()
    steps = (Command(("sh", "-c", f"echo '{line}' >> /etc/hosts")),) if plain else ()
    return Fix(_("add the name to /etc/hosts"), steps, risk=Risk.MANUAL)
