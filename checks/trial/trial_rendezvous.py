"""Can the ranks of a job meet on this machine?"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    SetKernel,
    Severity,
    Unknown,
    _,
    check,
)
from npudoctor.checks.network._hccl_ports_fixes import way_out
from npudoctor.checks.trial._rendezvous_fixes import (
    loopback,
    meet_on_loopback,
    open_the_way,
    own_address,
)
from npudoctor.checks.trial._rendezvous_names import own_name, own_unreachable, slow
from npudoctor.checks.trial._rendezvous_points import (
    PLACES,
    HostPorts,
    Point,
    host_ports,
    listeners,
    points,
)
from npudoctor.checks.trial._trying import allowed, incomplete
from npudoctor.core.frozen import replace
from npudoctor.core.ports import runs, spell
from npudoctor.facts.job.expected_accelerator import meant_for_other_machines
from npudoctor.facts.job.nodes import node_count
from npudoctor.facts.leftovers.port_holders import Holders, abbreviate
from npudoctor.host.network.sockets import TcpSocket
from npudoctor.trial.trials import Attempt, Trial

WAIT = 5.5  # seconds for a name: a resolver asks its next server after 5
SLOW = 1.0
PRIVILEGED = "net.ipv4.ip_unprivileged_port_start"
NO_PORT = "no port is left"  # as the child says it
OUTGOING, RESERVED_PORTS = (
    f"/proc/sys/net/ipv4/ip_local_{name}" for name in ("port_range", "reserved_ports")
)
USUAL_PORTS, FEW_PORTS = "32768 60999", 1000  # of the kernel; of which a few jobs leave nothing


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
    """The ranks of a job can meet on this machine.

    ## What it does

    In a child of the job's Python, as the job's user: looks up MASTER_ADDR, MS_SCHED_HOST and this machine's
    own name; listens on MASTER_PORT as torch's TCPStore does (IPv6 and IPv4 in one, else IPv4, SO_REUSEADDR),
    on MS_SCHED_PORT as MindSpore's scheduler does (on the address alone); connects to it by the address and
    by the own name, eight times at once, sends a few bytes, and closes by reset. Nobody else reaches the
    listener: a socket filter keeps others away, or for a loopback address the interface; where the kernel
    grants neither the port is bound only, and another one is connected to. Nothing stays in TIME_WAIT. Where
    no variable names a place on this machine, the ranks are taken to meet on 127.0.0.1, on a port that the
    system chooses.

    Where the address is another machine's, one connection is tried: that nobody listens there yet is well.
    Where NPUs are used, HCCL's ports on this host are listened on all at once, as its variables or the rank
    table name them.

    - `trial-rendezvous.cannot-bind`: a port that the job needs cannot be listened on: somebody else holds it,
      it is kept for root, or the address is not one of this machine. Of a range of HCCL any free port will
      do; of a base port those of the job's NPUs must be free. A warning where torch, which listens on all
      addresses, is not installed, and the port of this address alone is free.
    - `trial-rendezvous.cannot-connect`: the address is not known here, or nothing on this machine can connect
      to it, or not often enough; of another machine, that there is no way to it, and a warning where it does
      not answer at all.
    - `trial-rendezvous.own-name`: the name that `hostname` prints has no address, or none of this machine. An
      error for a job of several nodes, unless GLOO_SOCKET_IFNAME tells Gloo its address, and where torchrun
      finds the master by itself (PET_STANDALONE, PET_RDZV_BACKEND); else a warning, as Gloo then takes
      127.0.0.1. In a job of several nodes a loopback address is a warning.
    - `trial-rendezvous.slow`: a name takes more than a second to look up. After 5.5 seconds it is given up;
      where it is the master's, and another name server or domain might still answer, the row cannot tell.

    Nothing is tried on a port on which this job's own launcher listens: an ancestor such as torchrun's agent
    (TORCHELASTIC_USE_AGENT_STORE), the process of `--env-of` and its kin, or rank 0 where this is another
    rank of the same MASTER_PORT. As root it is skipped, unless `--as-user` says whose job it is.

    ## Why it matters

    "EADDRINUSE", "Permission denied", "The client socket has timed out", "gai error: -3", "Connection
    refused" from `connectFullMesh`: a job says these after a minute or after thirty, on all nodes at once.

    ## Fix safety

    Shown only. Another port must be the same on every node; a line in /etc/hosts holds until it is deleted.

    ## References

    torch.distributed, TCPStore, torchrun; msrun; HCCL environment variables; Gloo's `tcp/device.cc`;
    ip(7), `ip_unprivileged_port_start`; socket(7), SO_ATTACH_FILTER; resolv.conf(5).
    """
    allowed(host)
    holders = Holders(host)
    asked, hccl = points(host, holders), host_ports(host, holders)
    trial = host.trials.tried(
        "rendezvous",
        points=[point.question() for point in asked],
        own=True,
        hccl=hccl.question() if hccl else None,
        wait=WAIT,
    )
    yield Facts({"tried": [_tried(attempt) for attempt in trial.attempts if attempt.what != "socket"]})
    refused = trial.refused()
    if any(attempt.what == "socket" for attempt in refused):
        raise Unknown(_("the trial could not ask for sockets: {why}", why=refused[-1].reason))
    by_label = {point.label: point for point in asked}
    several, one_server = _several(host, trial), _has_one_server(host)
    silent, busy = [], []
    yield from slow(host, trial, SLOW)
    for attempt in trial.attempts:
        point = by_label.get(str(attempt.facts.get("label")))
        if attempt.what == "own-name":
            masters = {other.facts.get("place") for other in refused if other.what == "resolve"}
            yield from own_name(host, attempt, several, attempt.facts.get("name") in masters)
        elif _of_other_trials(host, point, attempt, holders):
            busy.append(attempt)
        elif attempt.what == "hccl" and hccl:
            yield from _hccl(host, hccl, attempt, holders)
        elif not attempt.refused:
            continue
        elif attempt.what == "bind" and point:
            yield _cannot_bind(host, point, attempt, holders)
        elif attempt.what == "resolve" and attempt.number == errno.ETIMEDOUT and not one_server:
            silent.append(str(attempt.facts["place"]))
        elif attempt.what == "resolve" and point:
            yield _unresolved(host, point, attempt, several)
        elif attempt.what == "connect" and point:
            yield _cannot_connect(host, point, attempt)
        elif attempt.what == "call" and point:
            yield _no_way(host, point, attempt)
        elif not any(other.what == "connect" for other in refused):
            yield own_unreachable(host, trial.facts(), attempt, several)
    incomplete(trial)
    if busy:
        raise Unknown(_("other trials held TCP port {port} all the time", port=busy[0].facts["port"]))
    if silent:
        names = ", ".join(dict.fromkeys(silent))
        raise Unknown(
            _("no name server answered within {seconds:g} s for {names}", names=names, seconds=WAIT)
        )


def _of_other_trials(host: Host, point: Optional[Point], attempt: Attempt, holders: Holders) -> bool:
    """Whether it may have been another trial's: nobody was seen to listen there before this one waited."""
    if attempt.number != errno.EADDRINUSE or attempt.facts.get("alone", True):
        return False
    return not (point and point.claim and listeners(host, point.claim, holders))


def _several(host: Host, trial: Trial) -> bool:
    """Whether the job has other nodes. Where nothing counts them, a master elsewhere tells; the names were
    looked up by the trial, and are not asked for again."""
    count = node_count(host)
    if host.options.peers or count is not None:
        return bool(host.options.peers) or (count or 0) > 1
    return any(attempt.what == "call" for attempt in trial.attempts)


def _has_one_server(host: Host) -> bool:
    """Whether there is a single name server, asked as usual: one that is silent for 5 s answers nobody. Of
    several a later one may, and of domains to search in the next."""
    lines = (host.running_files.text("/etc/resolv.conf") or "").splitlines()
    words = [line.split()[0] for line in lines if line.strip()]
    return [word for word in words if word in ("nameserver", "options", "search")] == ["nameserver"]


def _tried(attempt: Attempt) -> dict[str, object]:
    return {"what": attempt.what, "errno": attempt.number, **attempt.facts}


def _cannot_bind(host: Host, point: Point, attempt: Attempt, holders: Holders) -> Finding:
    if not point.label:
        text = _("no process can listen on a TCP port here: {why}", why=attempt.reason)
        return Finding("trial-rendezvous.cannot-bind", text, action=Action.CONFIG)
    place = {"port": point.port, "label": point.label, "why": attempt.reason}
    first = _first_unprivileged(host)
    evidence: tuple[str, ...] = (f"`bind(), listen(): {attempt.why}`",)
    # Another port is of use where this one is held, or kept for root.
    of_port = attempt.number == errno.EADDRINUSE or (attempt.number == errno.EACCES and point.port < first)
    fix = way_out(host, point.claim, host.sockets.bound(), first) if point.claim and of_port else None
    if attempt.number == errno.EADDRINUSE:
        held = listeners(host, point.claim, holders) if point.claim else []
        found = _held(point.label, {point.port}, held, evidence, fix, holders)
        if not attempt.facts.get("only_by_place"):
            return found
        # No torch is here, which listens on all addresses; another program may take the one that is meant.
        note = _("on {place} alone it can be listened on", place=point.place)
        return replace(found, severity=WARNING, evidence=(*evidence, note))
    if attempt.number == errno.EACCES and point.port < first:
        text = _(
            "only root may listen on TCP port {port} ({label}), as on all below {first}", first=first, **place
        )
        evidence = (*evidence, f"{PRIVILEGED} = {first}")
    elif attempt.number == errno.EADDRNOTAVAIL:
        fix = own_address(host, PLACES[point.label])
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
    """The first port that everybody may listen on."""
    told = (host.running_files.text(f"/proc/sys/{PRIVILEGED.replace('.', '/')}") or "").strip()
    return int(told) if told.isdecimal() else 1024


def _held(
    label: str,
    ports: set[int],
    held: Sequence[TcpSocket],
    evidence: tuple[str, ...],
    fix: Optional[Fix],
    holders: Holders,
) -> Finding:
    """Somebody else has the port. Who it is may be hidden from this user: then whose it is."""
    place = {"ports": spell(runs(ports)), "label": label}
    if held:
        text = _(
            "the job cannot listen on TCP port {ports} ({label}): {who} holds it on {addresses}",
            who=abbreviate(who for socket in held for who in holders.describe(socket)),
            addresses=abbreviate(sorted({socket.address for socket in held})),
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


def _hccl(host: Host, hccl: HostPorts, attempt: Attempt, holders: Holders) -> Iterator[Finding]:
    told = attempt.facts.get("refused")
    refused = {int(port): int(number) for port, number in told.items()} if isinstance(told, Mapping) else {}
    bad = {port for port in refused if port in hccl.needed or not hccl.needed}
    if not bad or (not hccl.needed and len(bad) < len(hccl.ports)):
        return
    numbers = {refused[port] for port in bad}
    evidence = (f"`bind(), listen() on {hccl.address}`",)
    fix = way_out(host, hccl.claim, host.sockets.bound()) if hccl.claim else None
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
        place = {"port": spell(runs(bad)), "label": hccl.label, "why": Attempt("hccl", min(numbers)).reason}
        text = _("the job cannot listen on TCP port {port} ({label}): {why}", **place)
        yield Finding("trial-rendezvous.cannot-bind", text, evidence=evidence, action=Action.CONFIG)
        return
    held = [
        socket
        for port in sorted(bad)
        for socket in (listeners(host, hccl.claim, holders, port) if hccl.claim else [])
    ]
    yield _held(hccl.label, bad, held, evidence, fix, holders)


def _unresolved(host: Host, point: Point, attempt: Attempt, several: bool) -> Finding:
    """The place has no address here."""
    variable = PLACES.get(point.label, "")
    text = _(
        "{variable} is {place}, a name whose address this machine cannot look up: {why}",
        variable=variable,
        place=point.place,
        why=attempt.reason,
    )
    return Finding(
        "trial-rendezvous.cannot-connect",
        text,
        severity=_at_most(host, ERROR),
        action=Action.CONFIG,
        fix=None if several else meet_on_loopback(variable),
        echo_of=("master-address.bad-value", "master-address.unresolvable"),
    )


def _cannot_connect(host: Host, point: Point, attempt: Attempt) -> Finding:
    place = {"place": point.place, "why": attempt.reason, "variable": PLACES.get(point.label, "")}
    if attempt.why == NO_PORT:
        return _no_port(host)
    if point.label:
        text = _("nothing on this machine can connect to {place} ({variable}): {why}", **place)
    else:
        text = _(
            "nothing on this machine can connect to {place}, where ranks meet by default: {why}", **place
        )
    evidence, fix = loopback(host)
    return Finding("trial-rendezvous.cannot-connect", text, evidence=evidence, action=Action.CONFIG, fix=fix)


def _no_port(host: Host) -> Finding:
    """Each connection has a port of its own on the side that opens it."""
    told = (host.running_files.text(OUTGOING, 1 << 10) or "").split()
    low, high = told if len(told) == 2 else ("", "")
    kept = (host.running_files.text(RESERVED_PORTS, 1 << 20) or "").strip()
    narrow = low.isdecimal() and high.isdecimal() and int(high) - int(low) < FEW_PORTS
    step = SetKernel("net.ipv4.ip_local_port_range", USUAL_PORTS, f"{low} {high}")
    return Finding(
        "trial-rendezvous.cannot-connect",
        _("the ranks cannot connect to each other: no port is left for connections that this machine opens"),
        evidence=(
            f"net.ipv4.ip_local_port_range = {low} {high}",
            *([f"net.ipv4.ip_local_reserved_ports = {kept[:80]}"] if kept else []),
        ),
        action=Action.CONFIG,
        fix=Fix(_("allow more until the next boot"), steps=(step,), risk=Risk.MANUAL) if narrow else None,
    )


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
        text = _("{place} ({variable}) does not answer on TCP port {port}, not even by a refusal", **place)
    else:
        text = _("this machine cannot connect to {place} ({variable}), TCP port {port}: {why}", **place)
    return Finding(
        "trial-rendezvous.cannot-connect",
        text,
        severity=_at_most(host, WARNING if quiet else ERROR),
        action=Action.CONFIG,
        fix=open_the_way(point.place, point.port),
        echo_of=("master-address.no-way",),
    )


def _at_most(host: Host, severity: Severity) -> Severity:
    """The variables of a login node may be meant for the machines of its cluster."""
    return INFO if meant_for_other_machines(host) else severity
