"""The words of the check hccl-ports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Optional

from npudoctor import Action, Command, Finding, Fix, Host, Risk, Severity, _, ngettext
from npudoctor.checks.network._hccl_ports_fixes import OUTGOING, RESERVED, kernel_ports, reserve
from npudoctor.core.ports import Span, overlap, runs, spell, without
from npudoctor.facts.job.ports import DEFAULTS, RANGE, BadPorts, Claim
from npudoctor.facts.leftovers.port_holders import Holders, abbreviate
from npudoctor.host.network.sockets import TcpSocket

SHOWN = 32  # evidence lines of one finding


def bad_value(bad: BadPorts) -> Finding:
    """A value that the job will not get past."""
    text = (
        _("{variable}={value} cannot be used: {why}") if not bad.lenient else _("{variable}={value}: {why}")
    )
    return Finding(
        "hccl-ports.bad-value",
        text.format(variable=bad.variable, value=bad.value[:80], why=bad.why),
        severity=Severity.WARNING if bad.lenient else None,
        action=Action.CONFIG,
    )


def held(claim: Claim, sockets: Sequence[TcpSocket], holders: Holders, fix: Optional[Fix]) -> Finding:
    """Ports that living processes keep the job from."""
    text = ngettext(
        "TCP port {ports} ({label}) is held on {addresses} by {who}",
        "TCP ports {ports} ({label}) are held on {addresses} by {who}",
        len({socket.port for socket in sockets}),
    )
    return Finding(
        "hccl-ports.held",
        _fill(text, claim.label, sockets, holders),
        evidence=(*_evidence(sockets, holders), *_left(claim, sockets)),
        action=Action.CONFIG,
        fix=fix,
    )


def _left(claim: Claim, sockets: Sequence[TcpSocket]) -> tuple[str, ...]:
    if claim.variable != RANGE:
        return ()
    free = claim.count - len({socket.port for socket in sockets})
    return (_("HCCL takes the first free port of the range, and {count} are free").format(count=free),)


def held_by_stale(
    claim: Claim, sockets: Sequence[TcpSocket], holders: Holders, proofs: Iterable[str], host: Host
) -> Finding:
    """Ports that were left behind by a job or container that is over."""
    text = ngettext(
        "TCP port {ports} ({label}) is held on {addresses} by {who}, left by a dead job or container",
        "TCP ports {ports} ({label}) are held on {addresses} by {who}, left by a dead job or container",
        len({socket.port for socket in sockets}),
    )
    pids = sorted({pid for socket in sockets for pid in holders.pids(socket)})
    fix = Fix(
        _("End what was left behind; add -KILL when it does not go"),
        tuple(Command(("kill", str(pid))) for pid in pids),
        risk=Risk.MANUAL,
        needs_root=any(host.processes.all()[pid].uid != host.identity.euid for pid in pids),
    )
    return Finding(
        "hccl-ports.held-by-stale",
        _fill(text, claim.label, sockets, holders),
        evidence=(*_evidence(sockets, holders), *dict.fromkeys(proofs)),
        action=Action.CLEANUP,
        fix=fix,
    )


def default_held(sockets: Sequence[TcpSocket], holders: Holders) -> Finding:
    """Defaults that no variable names: they matter only to a job that names no port."""
    text = ngettext(
        "TCP port {ports}, a default ({label}) that no variable names, is held on {addresses} by {who}",
        "TCP ports {ports}, defaults ({label}) that no variable names, are held on {addresses} by {who}",
        len({socket.port for socket in sockets}),
    )
    label = ", ".join(dict.fromkeys(DEFAULTS[socket.port] for socket in sockets))
    message = _fill(text, label, sockets, holders)
    return Finding("hccl-ports.default-held", message, evidence=_evidence(sockets, holders))


def undecided(claim: Claim, sockets: Sequence[TcpSocket], holders: Holders) -> str:
    """Why a port that is held can be neither well nor ill."""
    text = _("TCP port {ports} ({label}) is held on {addresses} by {who}, and {why}")
    return _fill(text, claim.label, sockets, holders, why=claim.unsure)


def ephemeral(host: Host, claim: Claim) -> Optional[Finding]:
    """Ports that the kernel may give to any outgoing connection before the job comes."""
    outgoing, reserved = kernel_ports(host)
    open_to_all = without(overlap(claim.spans, [outgoing]), reserved) if outgoing else ()
    if not outgoing or not open_to_all:
        return None
    text = _(
        "Any outgoing connection may take {ports} ({label}): {name} is {first} to {last}, {other} lacks them"
    )
    message = text.format(
        ports=_few(open_to_all), label=claim.label, name=OUTGOING, first=outgoing[0], last=outgoing[1],
        other=RESERVED,
    )  # fmt: skip
    fix = reserve(host, outgoing, reserved, open_to_all)
    return Finding("hccl-ports.ephemeral", message, action=Action.CONFIG, fix=fix)


def _fill(text: str, label: str, sockets: Sequence[TcpSocket], holders: Holders, **more: str) -> str:
    return text.format(
        ports=_few(runs(socket.port for socket in sockets)),
        label=label,
        addresses=abbreviate(sorted(socket.address for socket in sockets)),
        who=abbreviate(who for socket in sockets for who in holders.describe(socket)),
        **more,
    )


def _few(spans: Iterable[Span]) -> str:
    return abbreviate((spell([span]) for span in spans), 8)


def _evidence(sockets: Sequence[TcpSocket], holders: Holders) -> tuple[str, ...]:
    lines = []
    for socket in sockets[:SHOWN]:
        address = f"[{socket.address}]" if ":" in socket.address else socket.address
        state = "LISTEN" if socket.listening else _("connected")
        lines.append(f"tcp {address}:{socket.port} {state}: {abbreviate(holders.describe(socket), 8)}")
    return (*lines, *([f"... (+{len(sockets) - SHOWN})"] if len(sockets) > SHOWN else []))
