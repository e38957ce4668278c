"""What trial-rendezvous says of connections: within this machine, to another one, and of names that lie."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from npudoctor import ERROR, INFO, WARNING, Action, Finding, Fix, Host, Risk, SetKernel, Severity, _
from npudoctor.checks.trial._folders import MINDSPORE, has_framework, is_installed
from npudoctor.checks.trial._rendezvous_fixes import (
    Unusable,
    find_unusable,
    meet_on_loopback,
    name_interface,
    obstacle,
    open_the_way,
    own_address,
    use_address,
)
from npudoctor.checks.trial._rendezvous_points import PLACES, Point
from npudoctor.facts.job.expected_accelerator import may_be_for_other_machines
from npudoctor.facts.job.nodes import is_loopback, node_count
from npudoctor.trial.trials import Attempt

CODE = "trial-rendezvous.cannot-connect"
NO_PORT = "no port is left"  # as the child says it
OUTGOING, RESERVED_PORTS = (
    f"/proc/sys/net/ipv4/ip_local_{name}" for name in ("port_range", "reserved_ports")
)
USUAL_PORTS, FEW_PORTS = "32768 60999", 1000  # of the kernel; of which a few jobs leave nothing
CLUSTER = "KUBERNETES_SERVICE_HOST"  # in every pod


def unresolved(host: Host, point: Point, attempt: Attempt, several: bool) -> Finding:
    """The place has no address here."""
    variable = PLACES.get(point.label, "")
    text = _(
        "{variable} is {place}, a name that this machine cannot resolve: {why}",
        variable=variable,
        place=point.place,
        why=attempt.reason,
    )
    return Finding(
        CODE,
        text,
        severity=_at_most(host, ERROR),
        action=Action.CONFIG,
        fix=None if several else meet_on_loopback(variable),
        echo_of=("master-address.bad-value", "master-address.unresolvable"),
    )


def cannot_connect(host: Host, point: Point, attempt: Attempt, addresses: Sequence[str]) -> Finding:
    """Nobody here would get to who listens here."""
    place = {"place": point.place, "why": attempt.reason, "variable": PLACES.get(point.label, "")}
    if attempt.why == NO_PORT:
        return _no_port(host)
    if not point.label:
        text = _(
            "nothing on this machine can connect to {place}, where ranks meet by default: {why}", **place
        )
    elif attempt.facts.get("connections"):
        text = few(attempt, point.place)
    else:
        text = _("nothing on this machine can connect to {place} ({variable}): {why}", **place)
    evidence, fix = obstacle(host, addresses or [point.place], attempt, place["variable"])
    return Finding(
        CODE, text, severity=how_bad(host, attempt), evidence=evidence, action=Action.CONFIG, fix=fix
    )


def how_bad(host: Host, attempt: Attempt) -> Severity:
    """Where some connections could be made it depends on the job: two ranks of torch or MindSpore need more
    than three."""
    some = int(attempt.facts.get("connections") or 0) > 0
    return WARNING if some and not is_installed(host, "torch", *MINDSPORE) else ERROR


def few(attempt: Attempt, place: str) -> str:
    count = int(attempt.facts["connections"])
    return _(
        "ranks open several connections to {place} at once, but only {count} could be made: {why}",
        place=place,
        count=count,
        why=attempt.reason,
    )


def _no_port(host: Host) -> Finding:
    """Each connection has a port of its own on the side that opens it."""
    told = (host.running_files.text(OUTGOING, 1 << 10) or "").split()
    low, high = told if len(told) == 2 else ("", "")
    kept = (host.running_files.text(RESERVED_PORTS, 1 << 20) or "").strip()
    narrow = low.isdecimal() and high.isdecimal() and int(high) - int(low) < FEW_PORTS
    step = SetKernel("net.ipv4.ip_local_port_range", USUAL_PORTS, f"{low} {high}")
    return Finding(
        CODE,
        _("the ranks cannot connect to each other: this machine has no port left for outgoing connections"),
        evidence=(
            f"net.ipv4.ip_local_port_range = {low} {high}",
            *([f"net.ipv4.ip_local_reserved_ports = {kept[:80]}"] if kept else []),
        ),
        action=Action.CONFIG,
        fix=Fix(_("raise the limit until the next boot"), steps=(step,), risk=Risk.MANUAL)
        if narrow
        else None,
    )


def leads_elsewhere(
    host: Host, point: Point, attempt: Attempt, addresses: Sequence[str]
) -> Iterator[Finding]:
    """What is said of a place that is not this machine's; nothing of one that answers."""
    found = _doubtful(host, point, attempt.facts, addresses)
    unusable = find_unusable(host, addresses) if attempt.refused else None
    if unusable:
        yield _own_but_unusable(host, point, unusable)
    elif found:
        yield found
    elif attempt.refused and attempt.what == "call":
        yield _no_way(host, point, attempt)
    elif attempt.refused and not (attempt.number == errno.ETIMEDOUT and host.variables.get(CLUSTER)):
        # In a cluster the way back to us changes the port by which our own end is known.
        yield _elsewhere(host, point, attempt, addresses)


def _no_way(host: Host, point: Point, attempt: Attempt) -> Finding:
    """To another machine. One that does not answer may be switched on later."""
    place = {
        "place": point.place,
        "port": point.port,
        "variable": PLACES.get(point.label, ""),
        "why": attempt.reason,
    }
    quiet = attempt.number == errno.ETIMEDOUT
    if quiet:
        text = _("{place} ({variable}) neither accepts nor refuses connections on TCP port {port}", **place)
    else:
        text = _("this machine cannot connect to {place} ({variable}), TCP port {port}: {why}", **place)
    return Finding(
        CODE,
        text,
        severity=_at_most(host, WARNING if quiet else ERROR),
        action=Action.CONFIG,
        fix=open_the_way(point.place, point.port),
        echo_of=("master-address.no-way",),
    )


def _own_but_unusable(host: Host, point: Point, unusable: Unusable) -> Finding:
    text = _(
        "nothing on this machine can connect to {place} ({variable}): {interface} has its address, but {why}",
        place=point.place,
        variable=PLACES.get(point.label, ""),
        interface=unusable.interface,
        why=unusable.why,
    )
    return Finding(CODE, text, severity=_at_most(host, ERROR), action=Action.CONFIG, fix=unusable.fix)


def _elsewhere(host: Host, point: Point, attempt: Attempt, addresses: Sequence[str]) -> Finding:
    """The first rank runs here, and the place is another machine's."""
    variable = PLACES.get(point.label, "")
    text = _(
        "{variable} is {place}, which is not this machine ({addresses}), although the first rank runs here; "
        "TCP port {port} there: {why}",
        variable=variable,
        place=point.place,
        addresses=", ".join(addresses[:4]),
        port=point.port,
        why=attempt.reason,
    )
    # The address of a service leads to its pod only once that is ready.
    worst = WARNING if host.variables.get(CLUSTER) else ERROR
    return Finding(
        CODE,
        text,
        severity=_at_most(host, worst),
        action=Action.CONFIG,
        fix=meet_on_loopback(variable) if node_count(host) == 1 else own_address(host, variable),
        echo_of=("master-address.not-ours",),
    )


def _doubtful(
    host: Host, point: Point, facts: Mapping[str, Any], addresses: Sequence[str]
) -> Optional[Finding]:
    """A name for which the resolver gives an address that is not meant."""
    words = {
        "variable": PLACES.get(point.label, ""),
        "place": point.place,
        "addresses": ", ".join(addresses[:4]),
        "stranger": facts.get("stranger", ""),
    }
    alone = [str(address) for address in facts.get("alone") or ()]
    fix, severity = use_address(words["variable"], alone[0] if alone else ""), ERROR
    if alone:
        words["alone"] = ", ".join(alone[:4])
        text = _(
            "{variable} is {place}, which resolves here to {addresses} because the resolver adds one of "
            "its domains; the name itself resolves to this machine, {alone}"
        )
    elif facts.get("nowhere"):
        text = _(
            "{variable} is {place}, which resolves here to {addresses}, as every name does: the name "
            "server returns this address even for names that do not exist"
        )
    elif facts.get("beside"):
        severity = WARNING
        text = _(
            "{variable} is {place}, which resolves here to {addresses}, as does {stranger}, a name that "
            "does not exist: the master may be another machine"
        )
    else:
        return None
    evidence = (f"`getent ahosts {point.place}`: {words['addresses']}",)
    return Finding(
        CODE,
        text.format(**words),
        severity=_at_most(host, severity),
        evidence=evidence,
        action=Action.CONFIG,
        fix=fix,
    )


def interface_unreachable(host: Host, attempt: Attempt, several: bool) -> Finding:
    """The interface that Gloo is told to use leads nowhere, not even to ourselves."""
    address, label = str(attempt.facts.get("address", "")), str(attempt.facts["label"])
    evidence, fix = obstacle(host, [address], attempt)
    if not several and not is_loopback(address):
        fix = name_interface(host, several)
    text = _(
        "nothing on this machine can connect to {place} ({variable}): {why}",
        place=address,
        variable=label,
        why=attempt.reason,
    )
    if attempt.facts.get("connections"):
        text = few(attempt, address)
    meets = is_installed(host, "torch") and not (host.npus.nodes or host.gpus.nodes)
    severity = ERROR if meets else WARNING
    return Finding(CODE, text, severity=severity, evidence=evidence, action=Action.CONFIG, fix=fix)


def detour(host: Host, point: Point, address: str, ours: bool) -> Finding:
    """Each client first waits for an address that is silent. `ours`: a firewall drops what is sent there;
    torch was seen to give up before it came to the next one, which of an absent neighbour takes 3 s. What
    Python has of its own listens on the first address alone."""
    text = _(
        "{place} ({variable}) resolves first to {address}, which does not answer: each connection "
        "waits for it, and a program that listens only on the first address fails",
        place=point.place,
        variable=PLACES.get(point.label, ""),
        address=address,
    )
    title = _(
        "remove the line with {address} from /etc/hosts, or the record from the name server", address=address
    )
    fix = Fix(title, risk=Risk.MANUAL)
    stops = (ours and is_installed(host, "torch")) or not has_framework(host)
    code = CODE if stops else "trial-rendezvous.slow"
    return Finding(code, text, action=Action.CONFIG, fix=fix)


def no_interfaces(attempt: Attempt) -> Finding:
    """Gloo, NCCL and HCCL look for their addresses by getifaddrs()."""
    text = _(
        "a job process cannot read its network interfaces from the kernel (netlink): {why}; Gloo stops",
        why=attempt.reason,
    )
    title = _(
        "allow the job netlink sockets: add AF_NETLINK to RestrictAddressFamilies of its systemd "
        "unit, or allow it in the sandbox that starts the job"
    )
    return Finding(CODE, text, action=Action.CONFIG, fix=Fix(title, risk=Risk.MANUAL))


def _at_most(host: Host, severity: Severity) -> Severity:
    """The variables of a login node may be meant for the machines of its cluster."""
    return INFO if may_be_for_other_machines(host) else severity
