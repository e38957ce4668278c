"""Is HCCL_IF_IP an address of this machine that the other nodes can reach?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Command,
    Compared,
    Export,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Severity,
    Skip,
    _,
    check,
)
from npudoctor.facts.job.expected_accelerator import accelerators, may_be_for_other_machines
from npudoctor.facts.job.peers import find_first_peer, has_several_nodes
from npudoctor.host.network.interfaces import Interface

if TYPE_CHECKING:
    from npudoctor.host.network.interfaces import Address

NAME, IFNAME = "HCCL_IF_IP", "HCCL_SOCKET_IFNAME"


@check(
    "hccl-interface",
    scope=Scope.JOB,
    tags={"hccl"},
    needs=("$HCCL_IF_IP",),
    codes={
        "hccl-interface.bad-value": ERROR,
        "hccl-interface.pasted-punctuation": ERROR,
        "hccl-interface.not-ours": ERROR,
        "hccl-interface.down": ERROR,
        "hccl-interface.inner": ERROR,
        "hccl-interface.no-way": WARNING,
        "hccl-interface.other-way": WARNING,
        "hccl-interface.wins": INFO,
    },
    compares=(Compared("interface", "HCCL interface", complete=True),),
)
def hccl_interface(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Other nodes can reach this machine at HCCL_IF_IP.

    ## What it does

    Reads HCCL_IF_IP, `ADDRESS` or `ADDRESS%INTERFACE`. Asks the kernel which interface of this network
    namespace has the address, and which route packets take from it to the master: the address in MASTER_ADDR,
    MS_SCHED_HOST or CM_CHIEF_IP, else the first of `--peers`. No packet is sent.

    - `hccl-interface.bad-value`: not an IP address; several addresses; or nothing at all, which is what
      `$(hostname -I | awk ...)` leaves where it finds no address. HCCL stops with EI0001.
    - `hccl-interface.pasted-punctuation`: blanks, quotes or full-width characters around the address.
    - `hccl-interface.not-ours`: no interface of this machine has the address. A script that is the same on
      all nodes, or a container with its own network, names another machine's address.
    - `hccl-interface.down`: the interface of the address is switched off or has no carrier. A warning for a
      job on one node.
    - `hccl-interface.inner`: the interface is lo, or a bridge or interface of containers. An error for lo,
      else a warning; information for a job on one node, where lo is fine.
    - `hccl-interface.no-way`: the kernel has no route from the address to the master.
    - `hccl-interface.other-way`: the route to the master uses another interface. Information where both
      interfaces are in the master's network.
    - `hccl-interface.wins`: HCCL_SOCKET_IFNAME names another interface, and HCCL ignores it.

    On a machine without an accelerator, every finding except a bad value is information: the address may
    belong to the node where the job will run.

    ## Why it matters

    HCCL listens on this address and sends it to the other ranks. If they cannot reach it, they wait for
    HCCL_CONNECT_TIMEOUT and fail with EI0006 or EI0015, which name a socket, not this variable.

    ## Fix safety

    Lines that set variables are for the shell that starts the job, and for this node only: each node has
    another address. `npudoctor fix --risk caution` switches on an interface that is off: other programs of
    the machine may be meant to use other routes. `npudoctor undo` switches it off again; the kernel then
    drops its IPv6 addresses. If an interface is on and has no carrier, check the cable or the switch.

    ## References

    - hicann/hccl: documents of HCCL_IF_IP, and the code that reads it.
    """
    value = host.variables.get(NAME)
    if value is None:
        raise Skip(_("{name} is not set", name=NAME))
    npus, gpus = accelerators(host)
    if gpus and not npus:
        raise Skip(_("this machine has no NPU"))

    address, zone, why = _read_value(value)
    if why:
        # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
        # load it.
        from npudoctor.facts.job.input_cleanup import clean_up

        # The value without what a document left about it, where that is an address.
        cleaned = clean_up(value)
        if cleaned and _read_value(cleaned)[2]:
            cleaned = ""
        yield (
            _report_pasted(value, cleaned)
            if cleaned
            else _report_bad_value(value, why, _better_address(host))
        )
        return
    owner, own_address = _find_owner(host, address, zone)
    name, mtu = (owner.name, host.network.mtu_of(owner.name)) if owner else (None, None)
    yield Facts({"address": address, "interface": name, "mtu": mtu})
    if owner is None or own_address is None:
        severity = INFO if may_be_for_other_machines(host) else ERROR
        yield _report_not_ours(value, host.network.interfaces(), _better_address(host), severity)
        return
    yield from _judge_interface(host, value, owner)
    yield from _judge_route(host, value, owner, own_address)
    yield from _find_overruled(host, value, owner)


def _read_value(value: str) -> tuple[str, str, str]:
    """Return the address in its normal form, the interface after %, and why the value is invalid ("" if
    valid)."""
    # `ipaddress` takes some milliseconds to import, and most runs do not come here.
    import ipaddress

    text, _percent, zone = value.partition("%")
    if not value.strip():
        return "", "", _("it is empty")
    # $(hostname -I) prints all addresses of the machine.
    if len(value.replace(",", " ").split()) > 1:
        return "", "", _("it names more than one address")
    try:
        number = ipaddress.ip_address(text)
    except ValueError:
        # ipaddress also refuses forms that inet_aton() accepts, such as 10.1 and 010.0.0.1.
        return "", "", _("it is not an IP address")
    return str(number), zone, ""


def _find_overruled(host: Host, value: str, owner: Interface) -> Iterator[Finding]:
    """Report HCCL_SOCKET_IFNAME if it names another interface: HCCL ignores it when HCCL_IF_IP is set."""
    from npudoctor.facts.job.interface_names import read_names

    names = host.variables.get(IFNAME, "")
    if not names:
        return
    try:
        pattern = read_names(IFNAME, names)
    except ValueError:
        return  # socket-interfaces says so
    if pattern.names and owner not in pattern.of([owner]):
        message = _(
            "HCCL_IF_IP is {value} on {interface}, and overrides HCCL_SOCKET_IFNAME={given}",
            value=value,
            interface=owner.name,
            given=names,
        )
        yield _finding("wins", message, value, None, (owner,))


def _find_owner(host: Host, address: str, zone: str) -> tuple[Optional[Interface], Optional[Address]]:
    """Return the interface that has the address, and its entry; None and None if no interface has it."""
    for interface in host.network.interfaces():
        for own_address in interface.addresses:
            if own_address.text == address and zone in ("", *interface.names):
                return interface, own_address
    return None, None


def _judge_interface(host: Host, value: str, owner: Interface) -> Iterator[Finding]:
    """Report an interface that is down or leads to no other machine."""

    is_multi_node, is_for_others = has_several_nodes(host), may_be_for_other_machines(host)
    if not owner.is_alive:
        worst = ERROR if is_multi_node else WARNING
        yield _report_down(value, owner, INFO if is_for_others else worst)
    elif owner.is_internal and (is_multi_node or not owner.loopback):
        worst = ERROR if owner.loopback else WARNING
        # lo, a bridge or a container's interface: only this host can reach such an address.
        better = _better_address(host)
        message = _(
            "HCCL_IF_IP is {value} on {interface}, which is internal to this machine",
            value=value,
            interface=owner.name,
        )
        yield _finding(
            "inner",
            message,
            value,
            better if better != value else "",
            (owner,),
            worst if is_multi_node and not is_for_others else INFO,
        )


def _report_down(value: str, owner: Interface, severity: Severity) -> Finding:
    """Report an address whose interface is down."""
    fix = None
    if not owner.up:
        link_command = ("ip", "link", "set", "dev", owner.name)
        line = Command((*link_command, "up"), (*link_command, "down"))
        fix = Fix(_("bring {name} up", name=owner.name), (line,), risk=Risk.CAUTION)
    message = _(
        "HCCL_IF_IP is {value}, and its interface {interface} is down", value=value, interface=owner.name
    )
    return _finding("down", message, value, None, (owner,), severity, fix)


def _judge_route(host: Host, value: str, owner: Interface, own_address: Address) -> Iterator[Finding]:
    """Report if packets from this address to the master have no route or leave by another interface."""

    peer = find_first_peer(host)
    # If the master's address is of the other IP family, its route says nothing about this address.
    if (
        peer is None
        or (":" in peer.address) is not own_address.ipv6
        or owner.is_internal
        or not owner.is_alive
    ):
        return
    # A link-local address has a meaning only together with its interface (RFC 4007).
    index = owner.index if own_address.scope == "link" else 0
    route = host.network.route_to(peer.address, own_address.text, index)
    if route is None:
        # An address from which the kernel would not send to the master.
        message = _(
            "HCCL_IF_IP is {value}, which has no route to {far} ({named_by})",
            value=value,
            far=peer.address,
            named_by=peer.named_by,
        )
        yield _finding(
            "no-way", message, value, None, (owner,), INFO if may_be_for_other_machines(host) else WARNING
        )
    elif not route.local and route.index != owner.index:
        route_interface = host.network.interface_at(route.index)
        import ipaddress

        network = ipaddress.ip_network(f"{own_address.text}/{own_address.length}", strict=False)
        is_same_network = ipaddress.ip_address(peer.address) in network
        severity = INFO if is_same_network or may_be_for_other_machines(host) else WARNING
        # An address on one interface while packets leave by another.
        text = _(
            "HCCL_IF_IP is {value} on {interface}, but the route to {far} ({named_by}) uses {other}",
            value=value,
            interface=owner.name,
            far=peer.address,
            named_by=peer.named_by,
            other=route_interface.name if route_interface else "?",
        )
        interfaces = (owner, route_interface) if route_interface else (owner,)
        yield _finding(
            "other-way",
            text,
            value,
            ("" if is_same_network else _better_address(host)) or None,
            interfaces,
            severity,
        )


def _better_address(host: Host) -> str:
    """Return the source address of packets to the master, else the only address that other nodes can reach;
    "" if there is none or several."""
    from npudoctor.facts.job.interface_names import usable_addresses

    peer = find_first_peer(host)
    route = host.network.route_to(peer.address) if peer else None
    if route is not None and route.source and not route.local:
        return route.source
    outer = [
        interface
        for interface in host.network.interfaces()
        if interface.is_alive and not interface.is_internal
    ]
    own_texts = [
        address.text for interface in outer for address in usable_addresses(interface) if not address.ipv6
    ]
    return own_texts[0] if len(own_texts) == 1 else ""


NAME = "HCCL_IF_IP"
SHOWN = 16  # interfaces in the evidence
LONGEST = 200  # characters of a value that are shown


def _report_bad_value(value: str, why: str, better: str) -> Finding:
    """Report a value that HCCL refuses. `why`: the reason; `better`: an address for the fix, "" to unset."""
    return _finding(
        "bad-value",
        _(
            "{name} is {value}: {why}, and HCCL stops with EI0001",
            name=NAME,
            value=value[:LONGEST] or '""',
            why=why,
        ),
        value,
        better,
    )


def _report_pasted(value: str, cleaned: str) -> Finding:
    """Report an address with blanks or punctuation pasted from a document."""
    return _finding(
        "pasted-punctuation",
        _(
            "{name} is {value}, with blanks or characters pasted from a document; probably {meant} was meant",
            name=NAME,
            value=value[:LONGEST],
            meant=cleaned,
        ),
        value,
        cleaned,
    )


def _report_not_ours(value: str, interfaces: Iterable[Interface], better: str, severity: Severity) -> Finding:
    """Report an address that no interface of this network namespace has."""
    return _finding(
        "not-ours",
        _("HCCL_IF_IP is {value}, which is not an address of this machine", value=value),
        value,
        better,
        interfaces,
        severity,
    )


def _finding(
    code: str,
    message: str,
    value: str,
    better: Optional[str],
    interfaces: Iterable[Interface] = (),
    severity: Optional[Severity] = None,
    fix: Optional[Fix] = None,
) -> Finding:
    """Return the finding. `better`: the address that the fix sets; "" unsets the variable, None gives no
    fix."""
    if better is not None:
        title = _("set {name} to {value}") if better else _("unset {name}")
        step = Export(NAME, better) if better else Command(("unset", NAME))
        undo = Export(NAME, value).lines()
        fix = Fix(title.format(name=NAME, value=better), (step,), undo, Risk.MANUAL, needs_root=False)
    lines = [interface.description for interface in interfaces]
    more = (f"... (+{len(lines) - SHOWN})",) if len(lines) > SHOWN else ()
    return Finding(
        f"hccl-interface.{code}",
        message,
        severity=severity,
        evidence=(f"{NAME}={value[:LONGEST]}", *lines[:SHOWN], *more),
        action=Action.CONFIG,
        fix=fix,
    )
