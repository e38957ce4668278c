"""What trial-rendezvous says of connections: within this machine, to another one, and of names that lie."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from npudoctor import ERROR, INFO, WARNING, Action, Finding, Fix, Host, Risk, SetKernel, Severity, _
from npudoctor.checks.trial._folders import MINDSPORE, has_framework, is_installed
from npudoctor.checks.trial._rendezvous_fixes import (
    UnusableInterface,
    find_obstacle,
    find_unusable,
    meet_on_loopback,
    name_interface,
    open_network_fix,
    use_address,
    use_own_address,
)
from npudoctor.checks.trial._rendezvous_points import PLACES, MeetingPoint
from npudoctor.facts.job.expected_accelerator import may_be_for_other_machines
from npudoctor.facts.job.nodes import is_loopback, node_count
from npudoctor.trial.trials import Attempt

CODE = "trial-rendezvous.cannot-connect"
NO_PORT = "no port is left"  # as the child says it
# The kernel takes the local port of a connection from the first, except those in the second.
OUTGOING, RESERVED_PORTS = (
    f"/proc/sys/net/ipv4/ip_local_{name}" for name in ("port_range", "reserved_ports")
)
USUAL_PORTS, FEW_PORTS = "32768 60999", 1000  # of the kernel; of which a few jobs leave nothing
CLUSTER = "KUBERNETES_SERVICE_HOST"  # in every pod


def report_unresolved(host: Host, point: MeetingPoint, attempt: Attempt, has_several_nodes: bool) -> Finding:
    """Report a name that does not resolve."""
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
        severity=_limit_severity(host, ERROR),
        action=Action.CONFIG,
        fix=None if has_several_nodes else meet_on_loopback(variable),
        echo_of=("master-address.bad-value", "master-address.unresolvable"),
    )


def report_cannot_connect(
    host: Host, point: MeetingPoint, attempt: Attempt, addresses: Sequence[str]
) -> Finding:
    """Report that nothing on this machine can connect to an address of this machine."""
    place = {"place": point.place, "why": attempt.reason, "variable": PLACES.get(point.label, "")}
    if attempt.why == NO_PORT:
        return _report_no_port(host)
    if not point.label:
        text = _(
            "nothing on this machine can connect to {place}, where ranks meet by default: {why}", **place
        )
    elif attempt.facts.get("connections"):
        text = describe_few_connections(attempt, point.place)
    else:
        text = _("nothing on this machine can connect to {place} ({variable}): {why}", **place)
    evidence, fix = find_obstacle(host, addresses or [point.place], attempt, place["variable"])
    return Finding(
        CODE, text, severity=connect_severity(host, attempt), evidence=evidence, action=Action.CONFIG, fix=fix
    )


def connect_severity(host: Host, attempt: Attempt) -> Severity:
    """Return the severity. If some connections succeed it depends on the job: two ranks of torch or MindSpore
    need more than three."""
    has_some = int(attempt.facts.get("connections") or 0) > 0
    return WARNING if has_some and not is_installed(host, "torch", *MINDSPORE) else ERROR


def describe_few_connections(attempt: Attempt, place: str) -> str:
    count = int(attempt.facts["connections"])
    return _(
        "ranks open several connections to {place} at once, but only {count} could be made: {why}",
        place=place,
        count=count,
        why=attempt.reason,
    )


def _report_no_port(host: Host) -> Finding:
    """Report that no port is left for outgoing connections: each connection needs one on the connecting
    side."""
    range_words = (host.running_files.text(OUTGOING, 1 << 10) or "").split()
    low, high = range_words if len(range_words) == 2 else ("", "")
    reserved = (host.running_files.text(RESERVED_PORTS, 1 << 20) or "").strip()
    is_narrow = low.isdecimal() and high.isdecimal() and int(high) - int(low) < FEW_PORTS
    step = SetKernel("net.ipv4.ip_local_port_range", USUAL_PORTS, f"{low} {high}")
    return Finding(
        CODE,
        _("the ranks cannot connect to each other: this machine has no port left for outgoing connections"),
        evidence=(
            f"net.ipv4.ip_local_port_range = {low} {high}",
            *([f"net.ipv4.ip_local_reserved_ports = {reserved[:80]}"] if reserved else []),
        ),
        action=Action.CONFIG,
        fix=Fix(_("raise the limit until the next boot"), steps=(step,), risk=Risk.MANUAL)
        if is_narrow
        else None,
    )


def judge_elsewhere(
    host: Host, point: MeetingPoint, attempt: Attempt, addresses: Sequence[str]
) -> Iterator[Finding]:
    """Judge a place on another machine; yields nothing if it answers."""
    doubtful = _find_doubtful(host, point, attempt.facts, addresses)
    unusable = find_unusable(host, addresses) if attempt.refused else None
    if unusable:
        yield _report_unusable(host, point, unusable)
    elif doubtful:
        yield doubtful
    elif attempt.refused and attempt.what == "call":
        yield _report_no_way(host, point, attempt)
    elif attempt.refused and not (attempt.number == errno.ETIMEDOUT and host.variables.get(CLUSTER)):
        # In Kubernetes, NAT changes the source port, so the trial does not recognize its own connection.
        yield _report_elsewhere(host, point, attempt, addresses)


def _report_no_way(host: Host, point: MeetingPoint, attempt: Attempt) -> Finding:
    """Report that another machine cannot be reached: a warning if it does not answer at all, because it may
    start later."""
    place = {
        "place": point.place,
        "port": point.port,
        "variable": PLACES.get(point.label, ""),
        "why": attempt.reason,
    }
    is_silent = attempt.number == errno.ETIMEDOUT
    if is_silent:
        text = _("{place} ({variable}) neither accepts nor refuses connections on TCP port {port}", **place)
    else:
        text = _("this machine cannot connect to {place} ({variable}), TCP port {port}: {why}", **place)
    return Finding(
        CODE,
        text,
        severity=_limit_severity(host, WARNING if is_silent else ERROR),
        action=Action.CONFIG,
        fix=open_network_fix(point.place, point.port),
        echo_of=("master-address.no-way",),
    )


def _report_unusable(host: Host, point: MeetingPoint, unusable: UnusableInterface) -> Finding:
    text = _(
        "nothing on this machine can connect to {place} ({variable}): {interface} has its address, but {why}",
        place=point.place,
        variable=PLACES.get(point.label, ""),
        interface=unusable.interface,
        why=unusable.why,
    )
    return Finding(CODE, text, severity=_limit_severity(host, ERROR), action=Action.CONFIG, fix=unusable.fix)


def _report_elsewhere(host: Host, point: MeetingPoint, attempt: Attempt, addresses: Sequence[str]) -> Finding:
    """Report that the first rank runs here, but the address belongs to another machine."""
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
    # A Kubernetes service leads to its pod only once the pod is ready.
    worst = WARNING if host.variables.get(CLUSTER) else ERROR
    return Finding(
        CODE,
        text,
        severity=_limit_severity(host, worst),
        action=Action.CONFIG,
        fix=meet_on_loopback(variable) if node_count(host) == 1 else use_own_address(host, variable),
        echo_of=("master-address.not-ours",),
    )


def _find_doubtful(
    host: Host, point: MeetingPoint, facts: Mapping[str, Any], addresses: Sequence[str]
) -> Optional[Finding]:
    """Return a finding if the resolver returns an address for the name that cannot be the intended one; else
    None."""
    words = {
        "variable": PLACES.get(point.label, ""),
        "place": point.place,
        "addresses": ", ".join(addresses[:4]),
        "stranger": facts.get("stranger", ""),
    }
    own_addresses = [str(address) for address in facts.get("alone") or ()]
    fix, severity = use_address(words["variable"], own_addresses[0] if own_addresses else ""), ERROR
    # The resolver appends the domains of `search` before it tries the name itself, depending on ndots
    # (resolv.conf(5)).
    if own_addresses:
        words["alone"] = ", ".join(own_addresses[:4])
        text = _(
            "{variable} is {place}, which resolves here to {addresses} because the resolver adds one of "
            "its domains; the name itself resolves to this machine, {alone}"
        )
    # A wildcard record, or a provider that redirects names which do not exist.
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
        severity=_limit_severity(host, severity),
        evidence=evidence,
        action=Action.CONFIG,
        fix=fix,
    )


def report_unreachable_interface(host: Host, attempt: Attempt, has_several_nodes: bool) -> Finding:
    """Report that nothing can connect to the address of Gloo's interface, not even from this machine."""
    address, label = str(attempt.facts.get("address", "")), str(attempt.facts["label"])
    evidence, fix = find_obstacle(host, [address], attempt)
    if not has_several_nodes and not is_loopback(address):
        fix = name_interface(host, has_several_nodes)
    text = _(
        "nothing on this machine can connect to {place} ({variable}): {why}",
        place=address,
        variable=label,
        why=attempt.reason,
    )
    if attempt.facts.get("connections"):
        text = describe_few_connections(attempt, address)
    # Without an accelerator torch's ranks connect by Gloo alone.
    is_gloo_used = is_installed(host, "torch") and not (host.npus.nodes or host.gpus.nodes)
    severity = ERROR if is_gloo_used else WARNING
    return Finding(CODE, text, severity=severity, evidence=evidence, action=Action.CONFIG, fix=fix)


def report_detour(host: Host, point: MeetingPoint, address: str, is_dropped: bool) -> Finding:
    """Report that clients wait for a silent address first. `is_dropped`: a firewall drops what is sent there,
    and torch was seen to give up before it tried the next address; an absent neighbour fails after 3 s.
    Servers of Python's standard library listen on the first address only."""
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
    is_fatal = (is_dropped and is_installed(host, "torch")) or not has_framework(host)
    code = CODE if is_fatal else "trial-rendezvous.slow"
    return Finding(code, text, action=Action.CONFIG, fix=fix)


def report_no_interfaces(attempt: Attempt) -> Finding:
    """Report that interfaces cannot be listed: Gloo, NCCL and HCCL find their addresses by getifaddrs(3),
    which uses netlink."""
    text = _(
        "a job process cannot read its network interfaces from the kernel (netlink): {why}; Gloo stops",
        why=attempt.reason,
    )
    title = _(
        "allow the job netlink sockets: add AF_NETLINK to RestrictAddressFamilies of its systemd "
        "unit, or allow it in the sandbox that starts the job"
    )
    return Finding(CODE, text, action=Action.CONFIG, fix=Fix(title, risk=Risk.MANUAL))


def _limit_severity(host: Host, severity: Severity) -> Severity:
    """Lower the severity on a login node, whose variables may be meant for other machines."""
    return INFO if may_be_for_other_machines(host) else severity
