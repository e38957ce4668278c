"""The ways out of trial-rendezvous: another address, a loopback interface that works, a name for us."""

from __future__ import annotations

from typing import Optional

from npudoctor import Command, Export, Fix, Host, Risk, _
from npudoctor.checks.trial._rendezvous_points import LOOPBACK


def meet_on_loopback(variable: str) -> Fix:
    """A job of one node can meet on an address that needs nobody to look it up."""
    title = _("for a job on this node alone, use an address that needs no name server")
    return Fix(title, (Export(variable, LOOPBACK),), risk=Risk.MANUAL, needs_root=False)


def loopback(host: Host) -> tuple[tuple[str, ...], Optional[Fix]]:
    """Packets to any of our own addresses go by lo: what is wrong with it, and the line that heals it."""
    interface = next((one for one in host.network.interfaces() if one.loopback), None)
    if interface is None:
        return (_("there is no loopback interface"),), None
    steps = []
    if not interface.up:
        steps.append(Command(("ip", "link", "set", "dev", interface.name, "up")))
    elif not any(address.text == LOOPBACK for address in interface.addresses):
        steps.append(Command(("ip", "address", "add", f"{LOOPBACK}/8", "dev", interface.name)))
    switch = _("switch {name} on", name=interface.name)
    firewall = _("let this machine's firewall pass what goes by {name}", name=interface.name)
    return (interface.described,), Fix(switch if steps else firewall, tuple(steps), risk=Risk.MANUAL)


def open_the_way(place: str, port: int) -> Fix:
    """Nothing that could be typed here."""
    title = _(
        "let the network between the nodes, and the firewall of {place}, pass TCP port {port}",
        place=place,
        port=port,
    )
    return Fix(title, risk=Risk.MANUAL)


def own_address(host: Host, variable: str) -> Fix:
    """Whoever listens on one address needs one of ours."""
    found = _outward(host)
    title = _("where the first rank runs here: an address of this machine, the same on every node")
    step = Export(variable, found[1] if found else LOOPBACK)
    return Fix(title, (step,), risk=Risk.MANUAL, needs_root=False)


def _outward(host: Host) -> Optional[tuple[str, str]]:
    """An interface that others may reach, and its address."""
    return next(
        (
            (interface.name, address.text)
            for interface in host.network.interfaces()
            if interface.alive and not interface.inner and not interface.loopback
            for address in interface.addresses
            if address.scope == "global" and not address.ipv6
        ),
        None,
    )


def name_interface(host: Host) -> Optional[Fix]:
    """Gloo asks for no name where its interface is named."""
    found = _outward(host)
    if found is None:
        return None
    title = _("tell Gloo its interface, on each node the one that leads to the others")
    return Fix(title, (Export("GLOO_SOCKET_IFNAME", found[0]),), risk=Risk.MANUAL, needs_root=False)


def write_hosts_line(host: Host, name: str, address: str = "") -> Fix:
    """The file is asked before any name server."""
    found = _outward(host)
    line = f"{address or (found[1] if found else LOOPBACK)} {name}"
    # The kernel lets a host have any name; nobody is to paste one that a shell would run.
    plain = name.isascii() and name.replace("-", "").replace(".", "").isalnum()
    steps = (Command(("sh", "-c", f"echo '{line}' >> /etc/hosts")),) if plain else ()
    return Fix(_("write the name into /etc/hosts"), steps, risk=Risk.MANUAL)
