"""The words of the check hccl-interface."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from npudoctor import Action, Command, Export, Finding, Fix, Risk, Severity, _
from npudoctor.facts.job.peers import Peer
from npudoctor.host.network.interfaces import Interface

NAME = "HCCL_IF_IP"
SHOWN = 16  # interfaces in the evidence
LONGEST = 200  # characters of a value that are shown


def bad_value(value: str, why: str, better: str) -> Finding:
    """A value that HCCL refuses."""
    text = _("{name} is {value}: {why}, and HCCL stops with EI0001")
    return _finding(
        "bad-value", text.format(name=NAME, value=value[:LONGEST] or '""', why=why), value, better
    )


def pasted(value: str, meant: str) -> Finding:
    """An address with the punctuation of a document about it."""
    text = _(
        "{name} is {value}, with blanks or characters pasted from a document; {meant} was probably meant"
    )
    return _finding(
        "pasted-punctuation", text.format(name=NAME, value=value[:LONGEST], meant=meant), value, meant
    )


def not_ours(value: str, there: Iterable[Interface], better: str, severity: Severity) -> Finding:
    """An address that no interface of this network namespace carries."""
    text = _("HCCL_IF_IP is {value}, which is no address of this machine")
    return _finding("not-ours", text.format(value=value), value, better, there, severity)


def down(value: str, owner: Interface, severity: Severity) -> Finding:
    """An address on an interface through which nothing can leave."""
    text = _("HCCL_IF_IP is {value}, and its interface {interface} is down")
    fix = None
    if not owner.up:
        way = ("ip", "link", "set", "dev", owner.name)
        line = Command((*way, "up"), (*way, "down"))
        title = _("switch {name} on").format(name=owner.name)
        fix = Fix(title, (line,), risk=Risk.CAUTION)
    return _finding(
        "down", text.format(value=value, interface=owner.name), value, None, (owner,), severity, fix
    )


def inner(value: str, owner: Interface, severity: Severity, better: str) -> Finding:
    """An address that only this host knows."""
    text = _("HCCL_IF_IP is {value}, on {interface}, which does not lead out of this machine")
    message = text.format(value=value, interface=owner.name)
    return _finding("inner", message, value, better if better != value else "", (owner,), severity)


def no_way(value: str, owner: Interface, far: Peer, severity: Severity) -> Finding:
    """An address from which the kernel would not send to the master."""
    text = _("HCCL_IF_IP is {value}, and there is no way from it to {far} ({named_by})")
    message = text.format(value=value, far=far.address, named_by=far.named_by)
    return _finding("no-way", message, value, None, (owner,), severity)


def other_way(
    value: str, owner: Interface, by: Optional[Interface], far: Peer, better: str, severity: Severity
) -> Finding:
    """An address on one interface while packets leave by another."""
    text = _("HCCL_IF_IP is {value} on {interface}, but the way to {far} ({named_by}) is {other}")
    message = text.format(
        value=value,
        interface=owner.name,
        far=far.address,
        named_by=far.named_by,
        other=by.name if by else "?",
    )
    seen = (owner, by) if by else (owner,)
    return _finding("other-way", message, value, better or None, seen, severity)


def wins(value: str, owner: Interface, given: str) -> Finding:
    """HCCL_SOCKET_IFNAME that is not looked at."""
    text = _("HCCL_IF_IP is {value} on {interface}, and wins over HCCL_SOCKET_IFNAME={given}")
    message = text.format(value=value, interface=owner.name, given=given)
    return _finding("wins", message, value, None, (owner,))


def _finding(
    code: str,
    message: str,
    value: str,
    better: Optional[str],
    seen: Iterable[Interface] = (),
    severity: Optional[Severity] = None,
    fix: Optional[Fix] = None,
) -> Finding:
    """`better`: the address that the fix sets; "" unsets the variable, None offers nothing."""
    if better is not None:
        title = _("set {name} to {value}") if better else _("unset {name}")
        step = Export(NAME, better) if better else Command(("unset", NAME))
        undo = Export(NAME, value).lines()
        fix = Fix(title.format(name=NAME, value=better), (step,), undo, Risk.MANUAL, needs_root=False)
    lines = [one.described for one in seen]
    more = (f"... (+{len(lines) - SHOWN})",) if len(lines) > SHOWN else ()
    return Finding(
        f"hccl-interface.{code}",
        message,
        severity=severity,
        evidence=(f"{NAME}={value[:LONGEST]}", *lines[:SHOWN], *more),
        action=Action.CONFIG,
        fix=fix,
    )
