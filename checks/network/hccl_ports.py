"""The TCP ports that a distributed job binds on this host: free, or held and by whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Command,
    Facts,
    Finding,
    Fix,
    Host,
    Risk,
    Scope,
    Severity,
    Skip,
    Unknown,
    _,
    check,
    ngettext,
)
from npudoctor.checks.network._hccl_ports_fixes import (
    OUTGOING,
    RESERVED,
    kernel_ports,
    other_ports_fix,
    reserve_fix,
)
from npudoctor.core.ports import Span, mask, overlap, runs, spell, subtract
from npudoctor.facts.job.expected_accelerator import gpu_here, npu_here
from npudoctor.facts.job.ports import (
    DEFAULTS,
    RANGE,
    BadPorts,
    NamedPorts,
    PortClaim,
    RemotePort,
    find_named_ports,
)
from npudoctor.facts.leftovers.port_holders import PortHolders, PortOccupants, abbreviate, find_occupants
from npudoctor.host.network.sockets import TcpSocket
from npudoctor.proof.stale import staleness

# HCCP listens on it on the NPU (HCCL_NPU_SOCKET_PORT_RANGE); the host does not see that port.
NPU_PORT = "16666"
MOST = 64  # ports that are not free and that the facts name one by one


@check(
    "hccl-ports",
    scope=Scope.JOB,
    tags={"hccl", "ports"},
    needs=("npu", "gpu", "$HCCL_*", "$MASTER_*", "$MS_SCHED_*"),
    codes={
        "hccl-ports.held-by-stale": ERROR,
        "hccl-ports.bad-value": ERROR,
        "hccl-ports.held": WARNING,
        "hccl-ports.ephemeral": INFO,
        "hccl-ports.default-held": INFO,
    },
)
def hccl_ports(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The ports of HCCL and the launcher are free.

    ## What it does

    Reads which TCP ports the job will bind here, and who has a socket on them in this network namespace. It
    judges:

    - HCCL's host ports: HCCL_HOST_SOCKET_PORT_RANGE (`61000-61050`, `61000,61050-61100`, or `auto`, where the
      system chooses and nothing is judged), else 32 ports from HCCL_IF_BASE_PORT, else 60000 to 60031 where
      an NPU is found or expected;
    - MASTER_PORT where MASTER_ADDR is this machine, and MS_SCHED_PORT where MS_SCHED_HOST is. A host name is
      compared with this machine's own and with /etc/hosts; no name server is asked. If only a name server can
      resolve it, the result is unknown when the port is held, and nothing is reported when it is free.

    Findings:

    - `hccl-ports.held-by-stale`: all holders are proven stale, see below.
    - `hccl-ports.held`: another living process holds the port. A listener on one address, such as 127.0.0.1,
      blocks only that address and the wildcard; the finding names the address and is reported as if it
      mattered. The local end of an outgoing connection blocks the port too.
    - `hccl-ports.bad-value`: the value cannot be read, is out of range, overlaps or runs past 65535: HCCL
      stops with EI0001. Blanks in a range are a warning, because HCCL drops them.
    - `hccl-ports.ephemeral`: the kernel may give HCCL's ports to any outgoing connection, because they are in
      net.ipv4.ip_local_port_range and not in net.ipv4.ip_local_reserved_ports.
    - `hccl-ports.default-held`: 29500, 29688, 50000, 6000 (MASTER_PORT of common scripts), 8118 (msrun), or
      5500, 6500, 6600 (MindSpore Serving, whose scripts name them) is held. No variable names the port, so it
      matters only when the job takes the default.

    A port on which an ancestor process of npudoctor listens is fine: torchrun's agent holds MASTER_PORT for
    the job. If the holder's descriptors cannot be read, the finding names the user of the socket.

    A process is proven stale when it is in the control group of a Slurm job that has no slurmstepd left on
    this node, or of a container whose shim or conmon is gone. A missing parent proves nothing. From inside a
    container nothing is proven.

    The check does not see port 16666, which is bound on the NPU (HCCL_NPU_SOCKET_PORT_RANGE), or sockets that
    are bound but neither listen nor are connected, which the kernel does not list. Port 50052 of the
    MindSpore dataset cache server is not a TCP port in MindSpore 2.7 and later: see
    `npudoctor show cache-server`.

    ## Why it matters

    A held port ends the job while the ranks connect: "listen on ip[...] and specific port[60000] fail",
    "Address already in use", EJ0003 or EI0015, or a timeout on the ranks that wait for the one that failed.

    ## Fix safety

    Reserving ports is CAUTION: fewer ports remain for outgoing connections, and `npudoctor undo` gives them
    back. It takes effect now and, through a file in /etc/sysctl.d, at every boot. No file is written in a
    container, or where another file sets the reserved ports. All other fixes are shown only. Another port
    must be the same on every node of the job. Look at a stale process before you end it: ending it cannot be
    undone.

    ## References

    HCCL environment variables HCCL_IF_BASE_PORT, HCCL_HOST_SOCKET_PORT_RANGE; torchrun; msrun; proc_net(5);
    Documentation/networking/ip-sysctl.rst of the kernel; Slurm's cgroup guide.
    """
    holders = PortHolders(host)
    declared: list[NamedPorts] = []
    for ports in find_named_ports(host):
        declared.append(ports)
        if isinstance(ports, BadPorts):
            # HCCL stops with EI0001 at such a value; a lenient one is only a warning, because HCCL drops
            # blanks.
            text = (
                _("{variable}={value} cannot be used: {why}")
                if not ports.lenient
                else _("{variable}={value}: {why}")
            )
            yield Finding(
                "hccl-ports.bad-value",
                text.format(variable=ports.variable, value=ports.value[:80], why=ports.why),
                severity=Severity.WARNING if ports.lenient else None,
                action=Action.CONFIG,
                echo_of=("trial-rendezvous.cannot-bind",) if ports.lenient else (),
            )
        elif isinstance(ports, RemotePort):
            place = {"variable": ports.variable, "value": ports.value[:80] or None}
            yield Facts(
                {f"tcp/{ports.port}": {"state": "elsewhere" if ports.is_elsewhere else "not-judged", **place}}
            )
        else:
            # The kernel does not list sockets that are bound but neither listen nor are connected
            # (proc_net(5)).
            occupied = find_occupants(ports, host.sockets.bound_sockets(), holders)
            yield Facts(_facts(host, ports, occupied, holders))
            if not ports.unsure:
                yield from _judge(host, ports, occupied.held, holders)
    if not (declared or npu_here(host) or gpu_here(host)):
        raise Skip(_("no variable sets a port of this machine, and no NPU is used"))
    defaults = _find_default_listeners(host, declared, holders)
    if defaults:
        yield _report_defaults(defaults, holders)
    unsure = [ports for ports in declared if isinstance(ports, PortClaim) and ports.unsure]
    blocked = [(ports, find_occupants(ports, host.sockets.bound_sockets(), holders).held) for ports in unsure]
    # It is unknown whether these claims are for this machine, so a held port is neither right nor wrong.
    unsure_text = _("TCP port {ports} ({label}) is held on {addresses} by {who}, and {why}")
    undecided = [
        _fill_text(unsure_text, claim.label, held, holders, why=claim.unsure)
        for claim, held in blocked
        if held
    ]
    if undecided:
        raise Unknown("; ".join(undecided), advisory=True)
    if not defaults and all(isinstance(ports, RemotePort) for ports in declared):
        raise Skip(_("no variable sets a port of this machine, and no NPU is used"))


def _judge(
    host: Host, claim: PortClaim, sockets: Sequence[TcpSocket], holders: PortHolders
) -> Iterator[Finding]:
    proofs = {pid: staleness(host, pid) for socket in sockets for pid in holders.pids(socket)}
    stale: list[TcpSocket] = []
    living: list[TcpSocket] = []
    for socket in sockets:
        pids = holders.pids(socket)
        is_stale = bool(pids) and all(proofs[pid].proven for pid in pids)
        (stale if is_stale else living).append(socket)
    if stale:
        why = [proof.why for proof in proofs.values() if proof.proven]
        yield _report_held_by_stale(claim, stale, holders, why, host)
    if living:
        # These ports are held by living processes.
        text = ngettext(
            "TCP port {ports} ({label}) is held on {addresses} by {who}",
            "TCP ports {ports} ({label}) are held on {addresses} by {who}",
            len({socket.port for socket in living}),
        )
        free_lines: tuple[str, ...]
        if claim.variable != RANGE:
            free_lines = ()
        else:
            free = claim.count - len({socket.port for socket in living})
            free_lines = (_("HCCL takes the first free port of the range, and {count} are free", count=free),)
        yield Finding(
            "hccl-ports.held",
            _fill_text(text, claim.label, living, holders),
            evidence=(*_evidence(living, holders), *free_lines),
            action=Action.CONFIG,
            fix=other_ports_fix(host, claim, host.sockets.bound_sockets()),
            echo_of=("trial-rendezvous.cannot-bind",),
        )
    ephemeral = _judge_ephemeral(host, claim) if claim.hccl else None
    if ephemeral:
        yield ephemeral


def _facts(host: Host, claim: PortClaim, occupied: PortOccupants, holders: PortHolders) -> dict[str, object]:
    """Return free ports as ranges and other ports with their holders. `state` is free, partly-free, ancestor
    or held."""
    sockets_by_port: dict[int, tuple[str, list[TcpSocket]]] = {}
    kinds = {"held": occupied.held, "ancestor": occupied.ancestors, "partly-free": occupied.apart}
    for state, sockets in kinds.items():  # the first state of a port counts, the worst
        for socket in sockets:
            sockets_by_port.setdefault(socket.port, (state, []))[1].append(socket)
    states: dict[Span, Mapping[str, object]] = {}
    if len(sockets_by_port) > MOST:
        states[claim.spans[0]] = {"state": "crowded", "ports": claim.count, "not_free": len(sockets_by_port)}
    else:
        states.update(
            {(port, port): _describe_holders(*entry, holders) for port, entry in sockets_by_port.items()}
        )
        states.update({span: {"state": "free"} for span in subtract(claim.spans, states)})
    facts: dict[str, object] = {f"tcp/{spell([span])}": states[span] for span in sorted(states)}
    if claim.hccl:
        npu = host.variables.get("HCCL_NPU_SOCKET_PORT_RANGE", "").replace(" ", "") or NPU_PORT
        # The port is bound on the NPU, where this host cannot look.
        facts[f"npu/{npu[:80]}"] = {"state": "not-visible"}
    return facts


def _describe_holders(state: str, sockets: Sequence[TcpSocket], holders: PortHolders) -> Mapping[str, object]:
    return {
        "state": state,
        "addresses": sorted({socket.address for socket in sockets}),
        "pids": sorted({pid for socket in sockets for pid in holders.pids(socket)}),
        "uids": sorted({socket.uid for socket in sockets}),
    }


def _find_default_listeners(
    host: Host, declared: Sequence[NamedPorts], holders: PortHolders
) -> list[TcpSocket]:
    """Return the listeners on default ports that no variable names."""
    spans = [span for ports in declared if isinstance(ports, PortClaim) for span in ports.spans]
    spans += [
        (ports.port, ports.port) for ports in declared if isinstance(ports, RemotePort) and ports.is_elsewhere
    ]
    claimed = mask(spans)
    return [
        socket
        for socket in host.sockets.bound_sockets()
        if socket.is_listening
        and socket.port in DEFAULTS
        and not claimed[socket.port]
        # torchrun's agent listens on MASTER_PORT for the job.
        and not holders.is_held_by_ancestor(socket)
    ]


SHOWN = 32  # evidence lines of one finding


def _report_held_by_stale(
    claim: PortClaim, sockets: Sequence[TcpSocket], holders: PortHolders, proofs: Iterable[str], host: Host
) -> Finding:
    """Report ports held by processes of a job or container that is over. `proofs`: why each is stale."""
    text = ngettext(
        "TCP port {ports} ({label}) is held on {addresses} by {who}, left by a dead job or container",
        "TCP ports {ports} ({label}) are held on {addresses} by {who}, left by a dead job or container",
        len({socket.port for socket in sockets}),
    )
    pids = sorted({pid for socket in sockets for pid in holders.pids(socket)})
    fix = Fix(
        _("End the stale processes; add -KILL if they do not exit"),
        tuple(Command(("kill", str(pid))) for pid in pids),
        risk=Risk.MANUAL,
        needs_root=any(host.processes.by_pid()[pid].uid != host.identity.euid for pid in pids),
    )
    return Finding(
        "hccl-ports.held-by-stale",
        _fill_text(text, claim.label, sockets, holders),
        evidence=(*_evidence(sockets, holders), *dict.fromkeys(proofs)),
        action=Action.CLEANUP,
        fix=fix,
    )


def _report_defaults(sockets: Sequence[TcpSocket], holders: PortHolders) -> Finding:
    """Report held default ports that no variable names: they matter only to a job that names no port."""
    text = ngettext(
        "Default TCP port {ports} ({label}) is held on {addresses} by {who}; no variable sets it",
        "Default TCP ports {ports} ({label}) are held on {addresses} by {who}; no variable sets them",
        len({socket.port for socket in sockets}),
    )
    label = ", ".join(dict.fromkeys(DEFAULTS[socket.port] for socket in sockets))
    message = _fill_text(text, label, sockets, holders)
    return Finding("hccl-ports.default-held", message, evidence=_evidence(sockets, holders))


def _judge_ephemeral(host: Host, claim: PortClaim) -> Optional[Finding]:
    """Report ports that the kernel may give to an outgoing connection before the job binds them."""
    outgoing, reserved = kernel_ports(host)
    # The kernel never picks a reserved port by itself; bind() to one still works (ip-sysctl.rst).
    unreserved = subtract(overlap(claim.spans, [outgoing]), reserved) if outgoing else ()
    if not outgoing or not unreserved:
        return None
    message = _(
        "Outgoing connections may take {ports} ({label}): in {name} ({first} to {last}), not in {other}",
        ports=_list_spans(unreserved),
        label=claim.label,
        name=OUTGOING,
        first=outgoing[0],
        last=outgoing[1],
        other=RESERVED,
    )
    fix = reserve_fix(host, outgoing, reserved, unreserved)
    return Finding("hccl-ports.ephemeral", message, action=Action.CONFIG, fix=fix)


def _fill_text(text: str, label: str, sockets: Sequence[TcpSocket], holders: PortHolders, **more: str) -> str:
    return text.format(
        ports=_list_spans(runs(socket.port for socket in sockets)),
        label=label,
        addresses=abbreviate(sorted(socket.address for socket in sockets)),
        who=abbreviate(who for socket in sockets for who in holders.describe(socket)),
        **more,
    )


def _list_spans(spans: Iterable[Span]) -> str:
    return abbreviate((spell([span]) for span in spans), 8)


def _evidence(sockets: Sequence[TcpSocket], holders: PortHolders) -> tuple[str, ...]:
    lines = []
    for socket in sockets[:SHOWN]:
        address = f"[{socket.address}]" if ":" in socket.address else socket.address
        state = "LISTEN" if socket.is_listening else _("connected")
        lines.append(f"tcp {address}:{socket.port} {state}: {abbreviate(holders.describe(socket), 8)}")
    return (*lines, *([f"... (+{len(sockets) - SHOWN})"] if len(sockets) > SHOWN else []))
