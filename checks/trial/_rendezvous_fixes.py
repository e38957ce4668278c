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

# Below 68 bytes, the least MTU of IPv4 (RFC 791), the kernel removes the IPv4 addresses of an interface;
# 65536 is the default of lo.
LEAST_MTU, USUAL_MTU = 68, 65536
# Queueing disciplines that the kernel itself chooses and that delay nothing; noop is that of an interface
# that is down.
PASSING = ("", "noqueue", "noop", "pfifo_fast", "fq_codel", "fq", "mq")
# ip-route(8): a prohibit route gives EACCES, blackhole EINVAL, unreachable EHOSTUNREACH, and none at all
# ENETUNREACH.
NO_ROUTE = (errno.EACCES, errno.EINVAL, errno.ENETUNREACH, errno.EHOSTUNREACH)
# 1 removes all IPv6 addresses of the interface, ::1 too (ip-sysctl.rst).
SWITCH = "net.ipv6.conf.{name}.disable_ipv6"


def meet_on_loopback(variable: str) -> Fix:
    """Return the fix for a job on one node: the loopback address needs no name server."""
    title = _("for a job on this node alone, use an address that needs no name server")
    return Fix(title, (Export(variable, LOOPBACK),), risk=Risk.MANUAL, needs_root=False)


def use_address(variable: str, address: str) -> Fix:
    """Return the fix that uses an address instead of a name; without a command if `address` is ""."""
    title = _("use the address of the first rank's machine instead of its name, the same on every node")
    steps = (Export(variable, address),) if address else ()
    return Fix(title, steps, risk=Risk.MANUAL, needs_root=False)


def find_obstacle(
    host: Host, addresses: Sequence[str], attempt: Attempt, variable: str = ""
) -> tuple[tuple[str, ...], Optional[Fix]]:
    """Return evidence and fix for the loopback interface: packets to any address of this machine go through
    it."""
    existing = read_interfaces(host)
    if existing is None:
        return (), None
    interface = next((candidate for candidate in existing if candidate.loopback), None)
    if interface is None:
        return (_("there is no loopback interface"),), None
    evidence: tuple[str, ...] = (interface.description,)
    name = interface.name
    if not interface.up:
        title = _("bring {name} up", name=name)
        if len(existing) == 1:
            title = _("bring {name} up in the network namespace in which the job starts", name=name)
        return evidence, _command_fix(title, ("ip", "link", "set", "dev", name, "up"))
    restoring_fix = _restore_address_fix(host, interface, addresses, variable)
    if restoring_fix is not None:
        return evidence, restoring_fix
    if interface.queue not in PASSING and attempt.number == errno.ETIMEDOUT:
        evidence = (*evidence, f"`tc qdisc show dev {name}: qdisc {interface.queue}`")
        title = _("remove the queueing discipline that holds back traffic on {name}", name=name)
        return evidence, _command_fix(title, ("tc", "qdisc", "del", "dev", name, "root"))
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


def _restore_address_fix(
    host: Host, interface: Interface, addresses: Sequence[str], variable: str
) -> Optional[Fix]:
    """Return the fix that gives the loopback interface the address; None if it has it."""
    name, steps = interface.name, []
    loopback = [text for text in addresses if is_loopback(text)] or [LOOPBACK]
    if all(":" in text for text in loopback):
        if any(own.ipv6 for own in interface.addresses):
            return None
        if variable:
            return meet_on_loopback(variable)
        return Fix(_("enable IPv6"), (SetKernel(SWITCH.format(name=name), "0", "1"),), risk=Risk.MANUAL)
    if any(_covers(own.text, own.length, text) for own in interface.addresses for text in loopback):
        return None
    mtu = host.network.mtu_of(name)
    if mtu is not None and mtu < LEAST_MTU:
        steps.append(Command(("ip", "link", "set", "dev", name, "mtu", str(USUAL_MTU))))
    steps.append(Command(("ip", "address", "add", f"{LOOPBACK}/8", "dev", name)))
    return Fix(_("restore the address of {name}", name=name), tuple(steps), risk=Risk.MANUAL)


def _covers(own: str, length: int, address: str) -> bool:
    """Whether an interface's address with its prefix length makes `address` local, as 127.0.0.1/8 does for
    all of 127.0.0.0/8."""
    # `ipaddress` takes some milliseconds to import, and most runs do not come here.
    import ipaddress

    if ":" in own or ":" in address or not is_loopback(address):
        return False
    return ipaddress.ip_address(address) in ipaddress.ip_interface(f"{own}/{length}").network


def _command_fix(title: str, line: tuple[str, ...]) -> Fix:
    return Fix(title, (Command(line),), risk=Risk.MANUAL)


def read_interfaces(host: Host) -> Optional[Sequence[Interface]]:
    """Return the interfaces of this network namespace; None if they cannot be read: the finding then has no
    evidence."""
    try:
        return host.network.interfaces()
    except CannotTell:
        return None


class UnusableInterface(NamedTuple):
    """An interface whose address no socket can be bound to, the reason, and the fix."""

    interface: str
    why: str
    fix: Fix


def find_unusable(host: Host, addresses: Sequence[str]) -> Optional[UnusableInterface]:
    """Return the interface that has one of these addresses although no socket can be bound to it: IPv6 found
    a duplicate, or the local route is gone because somebody flushed the table. None if no interface has
    one."""
    for interface in read_interfaces(host) or ():
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
                return UnusableInterface(name, why, Fix(title, risk=Risk.MANUAL))
            if interface.up:
                title = _("restore the local route of {address}", address=own.text)
                words = ("ip", "route", "add", "local", own.text, "dev", name, "table", "local")
                return UnusableInterface(
                    name, _("the kernel has no local route to it"), _command_fix(title, words)
                )
    return None


def open_network_fix(place: str, port: int) -> Fix:
    """Return the fix that only the administrator of the network can apply: no command here does it."""
    title = _(
        "allow TCP port {port} in the network between the nodes and in the firewall of {place}",
        place=place,
        port=port,
    )
    return Fix(title, risk=Risk.MANUAL)


def use_own_address(host: Host, variable: str) -> Fix:
    """Return the fix that makes the first rank use an address of this machine."""
    outward = _find_outward_address(host)
    title = _("if the first rank runs here, use an address of this machine, the same on every node")
    step = Export(variable, outward[1] if outward else LOOPBACK)
    return Fix(title, (step,), risk=Risk.MANUAL, needs_root=False)


def _find_outward_address(host: Host) -> Optional[tuple[str, str]]:
    """Return the name and IPv4 address of an interface that other nodes can reach; None if there is none."""
    return next(
        (
            (interface.name, address.text)
            for interface in read_interfaces(host) or ()
            if interface.is_alive and not interface.is_internal and not interface.loopback
            for address in interface.addresses
            if address.scope == "global" and not address.ipv6
        ),
        None,
    )


def name_interface(host: Host, has_several_nodes: bool = True) -> Optional[Fix]:
    """Return the fix that names Gloo's interface: then Gloo does not resolve the host's name. None if no
    interface is known."""
    outward = _find_outward_address(host)
    if not has_several_nodes:
        title = _("for a job on this node alone, let Gloo use the loopback interface")
        return Fix(title, (Export("GLOO_SOCKET_IFNAME", "lo"),), risk=Risk.MANUAL, needs_root=False)
    if outward is None:
        return None
    title = _("on each node, set Gloo's interface to the one that leads to the others")
    return Fix(title, (Export("GLOO_SOCKET_IFNAME", outward[0]),), risk=Risk.MANUAL, needs_root=False)


def write_hosts_line(host: Host, name: str, address: str = "") -> Fix:
    """Return the fix that adds the name to /etc/hosts, which is read before any name server is asked."""
    outward = _find_outward_address(host)
    line = f"{address or (outward[1] if outward else LOOPBACK)} {name}"
    # The kernel accepts any host name (sethostname(2)): one with shell syntax must not be in a line to paste.
    is_plain = name.isascii() and name.replace("-", "").replace(".", "").isalnum()
    steps = (Command(("sh", "-c", f"echo '{line}' >> /etc/hosts")),) if is_plain else ()
    return Fix(_("add the name to /etc/hosts"), steps, risk=Risk.MANUAL)
