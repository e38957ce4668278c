"""Can the ranks of a job meet on this machine?"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional, Union

from npudoctor import ERROR, WARNING, Action, Facts, Finding, Fix, Host, Scope, Unknown, _, check
from npudoctor.checks.network._hccl_ports_fixes import way_out
from npudoctor.checks.trial._folders import is_installed
from npudoctor.checks.trial._rendezvous_fixes import find_unusable, own_address
from npudoctor.checks.trial._rendezvous_names import own_name, own_unreachable, slow
from npudoctor.checks.trial._rendezvous_points import (
    PLACES,
    HostPorts,
    Point,
    host_ports,
    listeners,
    points,
    ways,
)
from npudoctor.checks.trial._rendezvous_ways import (
    cannot_connect,
    detour,
    interface_unreachable,
    leads_elsewhere,
    no_interfaces,
    unresolved,
)
from npudoctor.checks.trial._trying import allowed, incomplete
from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import replace
from npudoctor.core.ports import runs, spell
from npudoctor.facts.job.nodes import node_count
from npudoctor.facts.leftovers.port_holders import PortHolders, abbreviate
from npudoctor.host.network.sockets import TcpSocket
from npudoctor.trial.trials import Attempt, Trial

WAIT = 5.5  # seconds for a name: a resolver asks its next server after 5
SLOW = 1.0
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
    node). Where nobody answers at a name, the trial asks its name servers for three more names: two that
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
    allowed(host)
    holders = PortHolders(host)
    asked, hccl, named, unknown = _asked(host, holders)
    trial = host.trials.try_part(
        "rendezvous",
        points=[point.question() for point in asked],
        own=True,
        ways=named,
        hccl=hccl.question() if hccl else None,
        wait=WAIT,
    )
    yield Facts({"tried": [_tried(attempt) for attempt in trial.attempts if attempt.what != "socket"]})
    refused = trial.refused()
    if any(attempt.what == "socket" for attempt in refused):
        raise Unknown(_("the trial could not create sockets: {why}", why=refused[-1].reason))
    by_label = {point.label: point for point in asked}
    silent, busy = [], []
    yield from slow(host, trial, SLOW)
    for attempt in trial.attempts:
        point = by_label.get(str(attempt.facts.get("label")))
        if _of_other_trials(host, point, attempt, holders):
            busy.append(attempt)
        elif attempt.what == "hccl" and hccl:
            yield from _hccl(host, hccl, attempt, holders)
        elif attempt.what == "bind" and point and attempt.refused:
            yield _cannot_bind(host, point, attempt, holders)
        elif attempt.what == "resolve" and attempt.number == errno.ETIMEDOUT and not _has_one_server(host):
            silent.append(str(attempt.facts["place"]))
        else:
            yield from _of_ways(host, trial, point, attempt)
    incomplete(trial)
    if busy:
        raise Unknown(_("other trials held TCP port {port} all the time", port=busy[0].facts["port"]))
    if silent:
        names = ", ".join(dict.fromkeys(silent))
        raise Unknown(
            _("no name server answered within {seconds:g} s for {names}", names=names, seconds=WAIT)
        )
    if unknown:
        raise Unknown(unknown)


def _asked(
    host: Host, holders: PortHolders
) -> tuple[list[Point], Optional[HostPorts], list[dict[str, str]], str]:
    """What is asked of the child; and why some of it is not known: the rest is tried all the same."""
    try:
        return points(host, holders), host_ports(host, holders), ways(host), ""
    except CannotTell as error:
        return [], None, [], error.reason


def _of_ways(host: Host, trial: Trial, point: Optional[Point], attempt: Attempt) -> Iterator[Finding]:
    """What an attempt says of names, and of the ways between the ranks."""
    refused = trial.refused()
    addresses = _addresses(trial, attempt)
    if attempt.what == "own-name":
        masters = {other.facts.get("place") for other in refused if other.what == "resolve"}
        yield from own_name(host, attempt, _several(host, trial), attempt.facts.get("name") in masters)
    elif attempt.what in ("call", "connect-elsewhere") and point:
        yield from leads_elsewhere(host, point, attempt, addresses)
    elif attempt.what == "connect" and point and attempt.facts.get("silent") and not attempt.refused:
        yield detour(host, point, str(attempt.facts["silent"]), ours=True)
    elif not attempt.refused:
        return
    elif attempt.what == "interfaces":
        if is_installed(host, "torch"):
            yield no_interfaces(attempt)
    elif attempt.what == "resolve" and point:
        yield unresolved(host, point, attempt, _several(host, trial))
    elif attempt.what == "connect" and point:
        yield cannot_connect(host, point, attempt, addresses)
    elif attempt.what == "detour" and point:
        yield detour(host, point, str(attempt.facts.get("address", "")), ours=False)
    elif attempt.what == "connect-way":
        yield interface_unreachable(host, attempt, _several(host, trial))
    elif attempt.what == "connect-own" and not any(other.what == "connect" for other in refused):
        yield own_unreachable(host, trial, attempt, _several(host, trial))


def _addresses(trial: Trial, attempt: Attempt) -> list[str]:
    """What the place of an attempt means here."""
    label = attempt.facts.get("label")
    told = (
        other.facts.get("addresses", ())
        for other in trial.attempts
        if other.what == "resolve" and other.facts.get("label") == label
    )
    return [str(address) for address in next(told, ())]


def _of_other_trials(host: Host, point: Optional[Point], attempt: Attempt, holders: PortHolders) -> bool:
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
    calls = (attempt for attempt in trial.attempts if attempt.what == "call")
    return any(find_unusable(host, _addresses(trial, attempt)) is None for attempt in calls)


def _has_one_server(host: Host) -> bool:
    """Whether there is a single name server, asked as usual: one that is silent for 5 s answers nobody. Of
    several a later one may, and of domains to search in the next."""
    lines = (host.running_files.text("/etc/resolv.conf") or "").splitlines()
    words = [line.split()[0] for line in lines if line.strip()]
    return [word for word in words if word in ("nameserver", "options", "search")] == ["nameserver"]


def _tried(attempt: Attempt) -> dict[str, object]:
    return {"what": attempt.what, "errno": attempt.number, **attempt.facts}


def _cannot_bind(host: Host, point: Point, attempt: Attempt, holders: PortHolders) -> Finding:
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
        note = _("listening on {place} alone works", place=point.place)
        return replace(found, severity=WARNING, evidence=(*evidence, note))
    if attempt.number == errno.EACCES and point.port < first:
        text = _(
            "only root may listen on TCP port {port} ({label}), as on all ports below {first}",
            first=first,
            **place,
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
    holders: PortHolders,
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


def _hccl(host: Host, hccl: HostPorts, attempt: Attempt, holders: PortHolders) -> Iterator[Finding]:
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
