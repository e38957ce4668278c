"""Can the ranks of a job meet on this machine?"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional, Union

from npudoctor import ERROR, WARNING, Action, Facts, Finding, Fix, Host, Scope, Unknown, _, check
from npudoctor.checks.network._hccl_ports_fixes import other_ports_fix
from npudoctor.checks.trial._folders import is_installed
from npudoctor.checks.trial._rendezvous_fixes import find_unusable, use_own_address
from npudoctor.checks.trial._rendezvous_names import judge_own_name, report_own_unreachable, report_slow_names
from npudoctor.checks.trial._rendezvous_points import (
    PLACES,
    HostPorts,
    MeetingPoint,
    find_gloo_addresses,
    find_host_ports,
    find_listeners,
    find_points,
)
from npudoctor.checks.trial._rendezvous_ways import (
    judge_elsewhere,
    report_cannot_connect,
    report_detour,
    report_no_interfaces,
    report_unreachable_interface,
    report_unresolved,
)
from npudoctor.checks.trial._trying import raise_if_incomplete, skip_unless_allowed
from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import replace
from npudoctor.core.ports import runs, spell
from npudoctor.facts.job.nodes import node_count
from npudoctor.facts.leftovers.port_holders import PortHolders, abbreviate
from npudoctor.host.network.sockets import TcpSocket
from npudoctor.trial.trials import Attempt, Trial

# Seconds for a name: the resolver asks the next name server after 5 s (resolv.conf(5), timeout).
WAIT = 5.5
# Each rank resolves the names several times, so even a second delays the start of a large job.
SLOW = 1.0
# Ports below it need CAP_NET_BIND_SERVICE; 1024 by default (ip-sysctl.rst).
PRIVILEGED = "net.ipv4.ip_unprivileged_port_start"


@check(
    "trial-rendezvous",
    scope=Scope.JOB,
    quick=False,
    tags={"rendezvous", "ports"},
    codes={
        "trial-rendezvous.cannot-bind": ERROR,
        "trial-rendezvous.cannot-connect": ERROR,
        "trial-rendezvous.own-name": ERROR,
        "trial-rendezvous.slow": WARNING,
    },
)
def trial_rendezvous(host: Host) -> Iterator[Union[Finding, Facts]]:
    """A job's ranks can meet on this machine.

    ## What it does

    In a child of the job's Python, as the job's user, the trial resolves MASTER_ADDR, MS_SCHED_HOST and this
    machine's own name. It listens on MASTER_PORT as torch's TCPStore does (IPv6 and IPv4 in one, else IPv4,
    SO_REUSEADDR), and on MS_SCHED_PORT as MindSpore's scheduler does (on the address alone). It connects by
    the address, by the first address of the own name and by that of GLOO_SOCKET_IFNAME, as Gloo does, eight
    times at once, sends a few bytes, and closes by reset. No other program reaches the listener: a socket
    filter keeps others away, or for a loopback address the interface, or the number of routers that packets
    have passed. Where the kernel grants none of these, the port is only bound, and the trial connects to
    another one. Nothing stays in TIME_WAIT. Where no variable names an address of this machine, the trial
    assumes that the ranks connect on 127.0.0.1, on a port that the system chooses.

    Where the address belongs to another machine, the trial makes one connection. It is fine if nobody listens
    there yet, unless the first rank is sure to run here (RANK, or without it NODE_RANK, is 0; the job has one
    node). Where nothing answers at a name, the trial asks its name servers for three more names: two that
    nobody has, one of them in its domain, and the name without the search domains. Where NPUs are used, the
    trial listens on all of HCCL's ports on this host at once, as its variables or the rank table name them.

    - `trial-rendezvous.cannot-bind`: the job cannot listen on a port that it needs: another process holds it,
      only root may listen on it, or the address is not one of this machine. In an HCCL port range any free
      port is enough; with a base port, those of the job's NPUs must be free. A warning where torch, which
      listens on all addresses, is not installed, and the port is free on this address alone.
    - `trial-rendezvous.cannot-connect`: this machine cannot resolve the address, or nothing on it can connect
      to the address. Or too few connections succeed, a warning where neither torch nor MindSpore is
      installed; or IPv6 found that another machine has the address. If the address belongs to another
      machine: there is no route to it; it does not answer at all, a warning; or it does not accept the
      connection although the first rank runs here. In Kubernetes the last is a warning at most, because a
      service leads to its pod only once that is ready. Or the name resolves to the same address as any other
      name, a warning where only the names of its domain do; or it would be this machine's without an appended
      domain. Where torch is installed, also: the kernel does not list the network interfaces (netlink), and
      Gloo stops.
    - `trial-rendezvous.own-name`: the name that `hostname` prints has no address, or none of this machine. An
      error for a job on several nodes, unless GLOO_SOCKET_IFNAME gives Gloo its address, and where torchrun
      finds the master by itself (PET_STANDALONE, PET_RDZV_BACKEND). Else a warning, because Gloo then uses
      127.0.0.1. In a job on several nodes a loopback address is a warning.
    - `trial-rendezvous.slow`: a name takes more than a second to resolve. The lookup ends after 5.5 seconds;
      if the name is the master's, and another name server or domain might still answer, the result is
      unknown. Or the first address of a name does not answer, and connections wait for it. This is
      `cannot-connect` where the address is one of this machine and torch is installed, because its clients
      give up before the next one; and where no framework is installed, because Python's own servers listen on
      the first address alone.

    The trial leaves alone a port on which this job's own launcher listens: an ancestor such as torchrun's
    agent (TORCHELASTIC_USE_AGENT_STORE), the process of `--env-of` and the other processes of its job, or
    rank 0 where this is another rank of the same MASTER_PORT. As root the check is skipped, unless
    `--as-user` names the job's user.

    ## Why it matters

    "EADDRINUSE", "Permission denied", "The client socket has timed out", "gai error: -3", "Connection
    refused" from `connectFullMesh`: a job fails with these after one minute or thirty, on all nodes at once.

    ## Fix safety

    Shown only. Another port must be the same on every node; a line in /etc/hosts stays until it is deleted.

    ## References

    torch.distributed, TCPStore, torchrun; msrun; HCCL environment variables; Gloo's `tcp/device.cc`;
    ip(7), `ip_unprivileged_port_start`; socket(7), SO_ATTACH_FILTER; resolv.conf(5).
    """
    skip_unless_allowed(host)
    holders = PortHolders(host)
    meeting_points, hccl, interface_addresses, why_unknown = _find_questions(host, holders)
    trial = host.trials.try_part(
        "rendezvous",
        points=[point.question() for point in meeting_points],
        own=True,
        ways=interface_addresses,
        hccl=hccl.question() if hccl else None,
        wait=WAIT,
    )
    yield Facts(
        {"tried": [_attempt_facts(attempt) for attempt in trial.attempts if attempt.what != "socket"]}
    )
    refused = trial.refused()
    if any(attempt.what == "socket" for attempt in refused):
        raise Unknown(_("the trial could not create sockets: {why}", why=refused[-1].reason))
    by_label = {point.label: point for point in meeting_points}
    silent, busy = [], []
    yield from report_slow_names(host, trial, SLOW)
    for attempt in trial.attempts:
        point = by_label.get(str(attempt.facts.get("label")))
        if _is_other_trials(host, point, attempt, holders):
            busy.append(attempt)
        elif attempt.what == "hccl" and hccl:
            yield from _judge_hccl(host, hccl, attempt, holders)
        elif attempt.what == "bind" and point and attempt.refused:
            yield _report_cannot_bind(host, point, attempt, holders)
        elif attempt.what == "resolve" and attempt.number == errno.ETIMEDOUT and not _has_one_server(host):
            silent.append(str(attempt.facts["place"]))
        else:
            yield from _judge_way(host, trial, point, attempt)
    raise_if_incomplete(trial)
    if busy:
        raise Unknown(_("other trials held TCP port {port} all the time", port=busy[0].facts["port"]))
    if silent:
        names = ", ".join(dict.fromkeys(silent))
        raise Unknown(
            _("no name server answered within {seconds:g} s for {names}", names=names, seconds=WAIT)
        )
    if why_unknown:
        raise Unknown(why_unknown)


def _find_questions(
    host: Host, holders: PortHolders
) -> tuple[list[MeetingPoint], Optional[HostPorts], list[dict[str, str]], str]:
    """Return the points, HCCL's ports and Gloo's addresses for the trial, and why they are unknown ("" if
    known). The rest of the trial runs in any case."""
    try:
        return find_points(host, holders), find_host_ports(host, holders), find_gloo_addresses(host), ""
    except CannotTell as error:
        return [], None, [], error.reason


def _judge_way(
    host: Host, trial: Trial, point: Optional[MeetingPoint], attempt: Attempt
) -> Iterator[Finding]:
    """Judge an attempt at a name or at a connection between ranks."""
    refused = trial.refused()
    addresses = _addresses(trial, attempt)
    if attempt.what == "own-name":
        masters_names = {other.facts.get("place") for other in refused if other.what == "resolve"}
        yield from judge_own_name(
            host, attempt, _has_several_nodes(host, trial), attempt.facts.get("name") in masters_names
        )
    elif attempt.what in ("call", "connect-elsewhere") and point:
        yield from judge_elsewhere(host, point, attempt, addresses)
    elif attempt.what == "connect" and point and attempt.facts.get("silent") and not attempt.refused:
        yield report_detour(host, point, str(attempt.facts["silent"]), is_dropped=True)
    elif not attempt.refused:
        return
    elif attempt.what == "interfaces":
        if is_installed(host, "torch"):
            yield report_no_interfaces(attempt)
    elif attempt.what == "resolve" and point:
        yield report_unresolved(host, point, attempt, _has_several_nodes(host, trial))
    elif attempt.what == "connect" and point:
        yield report_cannot_connect(host, point, attempt, addresses)
    elif attempt.what == "detour" and point:
        yield report_detour(host, point, str(attempt.facts.get("address", "")), is_dropped=False)
    elif attempt.what == "connect-way":
        yield report_unreachable_interface(host, attempt, _has_several_nodes(host, trial))
    elif attempt.what == "connect-own" and not any(other.what == "connect" for other in refused):
        yield report_own_unreachable(host, trial, attempt, _has_several_nodes(host, trial))


def _addresses(trial: Trial, attempt: Attempt) -> list[str]:
    """Return the addresses to which the place of an attempt resolves."""
    label = attempt.facts.get("label")
    resolved = (
        other.facts.get("addresses", ())
        for other in trial.attempts
        if other.what == "resolve" and other.facts.get("label") == label
    )
    return [str(address) for address in next(resolved, ())]


def _is_other_trials(
    host: Host, point: Optional[MeetingPoint], attempt: Attempt, holders: PortHolders
) -> bool:
    """Whether another trial may have held the port: no listener was seen there before this trial waited."""
    if attempt.number != errno.EADDRINUSE or attempt.facts.get("alone", True):
        return False
    return not (point and point.claim and find_listeners(host, point.claim, holders))


def _has_several_nodes(host: Host, trial: Trial) -> bool:
    """Whether the job has several nodes. If nothing counts them, a master on another machine means several.
    The trial has resolved the names, so no name server is asked again."""
    count = node_count(host)
    if host.options.peers or count is not None:
        return bool(host.options.peers) or (count or 0) > 1
    calls = (attempt for attempt in trial.attempts if attempt.what == "call")
    return any(find_unusable(host, _addresses(trial, attempt)) is None for attempt in calls)


def _has_one_server(host: Host) -> bool:
    """Whether resolv.conf has one name server and no options or search domains: then a server that is silent
    for 5 s answers nobody. With several, a later one may still answer."""
    lines = (host.running_files.text("/etc/resolv.conf") or "").splitlines()
    words = [line.split()[0] for line in lines if line.strip()]
    return [word for word in words if word in ("nameserver", "options", "search")] == ["nameserver"]


def _attempt_facts(attempt: Attempt) -> dict[str, object]:
    return {"what": attempt.what, "errno": attempt.number, **attempt.facts}


def _report_cannot_bind(host: Host, point: MeetingPoint, attempt: Attempt, holders: PortHolders) -> Finding:
    if not point.label:
        text = _("no process can listen on a TCP port here: {why}", why=attempt.reason)
        return Finding("trial-rendezvous.cannot-bind", text, action=Action.CONFIG)
    place = {"port": point.port, "label": point.label, "why": attempt.reason}
    first = _first_unprivileged(host)
    evidence: tuple[str, ...] = (f"`bind(), listen(): {attempt.why}`",)
    # Another port helps if this one is held or privileged.
    is_port_taken = attempt.number == errno.EADDRINUSE or (
        attempt.number == errno.EACCES and point.port < first
    )
    fix = (
        other_ports_fix(host, point.claim, host.sockets.bound_sockets(), first)
        if point.claim and is_port_taken
        else None
    )
    if attempt.number == errno.EADDRINUSE:
        sockets = find_listeners(host, point.claim, holders) if point.claim else []
        finding = _report_held(point.label, {point.port}, sockets, evidence, fix, holders)
        if not attempt.facts.get("only_by_place"):
            return finding
        # torch listens on all addresses, but is not installed; another program may listen on the named one
        # only.
        note = _("listening on {place} alone works", place=point.place)
        return replace(finding, severity=WARNING, evidence=(*evidence, note))
    if attempt.number == errno.EACCES and point.port < first:
        text = _(
            "only root may listen on TCP port {port} ({label}), as on all ports below {first}",
            first=first,
            **place,
        )
        evidence = (*evidence, f"{PRIVILEGED} = {first}")
    elif attempt.number == errno.EADDRNOTAVAIL:
        fix = use_own_address(host, PLACES[point.label])
        text = _(
            "the job cannot listen on {place}, TCP port {port} ({label}): not an address of this machine",
            place=point.place,
            **place,
        )
    else:
        text = _("the job cannot listen on TCP port {port} ({label}): {why}", **place)
    return Finding(
        "trial-rendezvous.cannot-bind",
        text,
        evidence=evidence,
        action=Action.CONFIG,
        fix=fix,
        echo_of=("hccl-ports.bad-value", "master-address.bad-port"),
    )


def _first_unprivileged(host: Host) -> int:
    """Return the first port on which every user may listen (ip(7), ip_unprivileged_port_start)."""
    value = (host.running_files.text(f"/proc/sys/{PRIVILEGED.replace('.', '/')}") or "").strip()
    return int(value) if value.isdecimal() else 1024


def _report_held(
    label: str,
    ports: set[int],
    sockets: Sequence[TcpSocket],
    evidence: tuple[str, ...],
    fix: Optional[Fix],
    holders: PortHolders,
) -> Finding:
    """Report ports that another process holds; if the process is hidden from this user, the socket's owner is
    named."""
    place = {"ports": spell(runs(ports)), "label": label}
    if sockets:
        text = _(
            "the job cannot listen on TCP port {ports} ({label}): {who} holds it on {addresses}",
            who=abbreviate(who for socket in sockets for who in holders.describe(socket)),
            addresses=abbreviate(sorted({socket.address for socket in sockets})),
            **place,
        )
    else:
        text = _(
            "the job cannot listen on TCP port {ports} ({label}): /proc/net/tcp does not show what holds it",
            **place,
        )
    return Finding(
        "trial-rendezvous.cannot-bind",
        text,
        evidence=evidence,
        action=Action.CONFIG,
        fix=fix,
        echo_of=("hccl-ports.held-by-stale",),
    )


def _judge_hccl(host: Host, hccl: HostPorts, attempt: Attempt, holders: PortHolders) -> Iterator[Finding]:
    number_by_port = attempt.facts.get("refused")
    refused = (
        {int(port): int(number) for port, number in number_by_port.items()}
        if isinstance(number_by_port, Mapping)
        else {}
    )
    # In a range any free port is enough; with a base port HCCL needs those of the job's NPUs.
    lost_ports = {port for port in refused if port in hccl.needed or not hccl.needed}
    if not lost_ports or (not hccl.needed and len(lost_ports) < len(hccl.ports)):
        return
    numbers = {refused[port] for port in lost_ports}
    evidence = (f"`bind(), listen() on {hccl.address}`",)
    fix = other_ports_fix(host, hccl.claim, host.sockets.bound_sockets()) if hccl.claim else None
    if errno.EADDRNOTAVAIL in numbers:
        text = _(
            "HCCL cannot listen on {address} ({label}): not an address of this machine",
            address=hccl.address,
            label=hccl.label,
        )
        yield Finding(
            "trial-rendezvous.cannot-bind",
            text,
            evidence=evidence,
            action=Action.CONFIG,
            echo_of=("hccl-interface.not-ours",),
        )
        return
    if errno.EADDRINUSE not in numbers:
        place = {
            "port": spell(runs(lost_ports)),
            "label": hccl.label,
            "why": Attempt("hccl", min(numbers)).reason,
        }
        text = _("the job cannot listen on TCP port {port} ({label}): {why}", **place)
        yield Finding("trial-rendezvous.cannot-bind", text, evidence=evidence, action=Action.CONFIG)
        return
    sockets = [
        socket
        for port in sorted(lost_ports)
        for socket in (find_listeners(host, hccl.claim, holders, port) if hccl.claim else [])
    ]
    yield _report_held(hccl.label, lost_ports, sockets, evidence, fix, holders)
