"""The words of the check socket-interfaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Optional

from npudoctor import Action, Command, Export, Finding, Fix, Risk, Severity, _
from npudoctor.facts.job.interface_names import HCCL
from npudoctor.host.network.interfaces import Interface

SHOWN = 16  # interfaces in the evidence
LONGEST = 200  # characters of a value that are shown


def bad_value(variable: str, value: str, why: str, severity: Severity) -> Finding:
    """A value that its reader refuses."""
    text = _("{variable}={value} cannot be used: {why}").format(
        variable=variable, value=value[:LONGEST], why=why
    )
    return _finding("bad-value", text, variable, value, (), severity, "")


def pasted(variable: str, value: str, meant: str, severity: Severity) -> Finding:
    """A name with blanks or the punctuation of a document about it."""
    text = _(
        "{name} is {value}, with blanks or characters pasted from a document; {meant} was probably meant"
    )
    message = text.format(name=variable, value=value[:LONGEST], meant=meant)
    return _finding("pasted-punctuation", message, variable, value, (), severity, meant)


def missing(
    variable: str, value: str, names: Sequence[str], there: Iterable[Interface], severity: Severity
) -> Finding:
    """No interface is called so."""
    if names:
        text = _("{variable}={value}: there is no interface {names} here")
    else:
        text = _("{variable}={value} names no interface of this machine")
    message = text.format(variable=variable, value=value[:LONGEST], names=", ".join(names)[:LONGEST])
    if any(name[:1] in "^=" for name in names if name):
        message += " " + _("({variable} takes whole names only)").format(variable=variable)
    return _finding("missing", message, variable, value, there, severity, None)


def down(variable: str, value: str, chosen: Sequence[Interface], severity: Severity) -> Finding:
    """An interface through which nothing can leave."""
    text = _("{variable}={value}: {names} is down")
    message = text.format(variable=variable, value=value[:LONGEST], names=_names(chosen))
    fix = None
    if len(chosen) == 1 and not chosen[0].up:
        way = ("ip", "link", "set", "dev", chosen[0].name)
        line = Command((*way, "up"), (*way, "down"))
        title = _("switch {name} on").format(name=chosen[0].name)
        fix = Fix(title, (line,), risk=Risk.CAUTION)
    return _finding("down", message, variable, value, chosen, severity, None, fix)


def no_address(variable: str, value: str, chosen: Sequence[Interface], severity: Severity) -> Finding:
    """An interface that nobody can be told to connect to."""
    text = _("{variable}={value}: {names} has no address that another node could be told")
    message = text.format(variable=variable, value=value[:LONGEST], names=_names(chosen))
    return _finding("no-address", message, variable, value, chosen, severity, None)


def inner(variable: str, value: str, chosen: Sequence[Interface], severity: Severity) -> Finding:
    """An interface that leads to containers of this host only."""
    text = _("{variable}={value}: {names} does not lead out of this machine")
    message = text.format(variable=variable, value=value[:LONGEST], names=_names(chosen))
    return _finding("inner", message, variable, value, chosen, severity, None)


def ambiguous(variable: str, value: str, chosen: Sequence[Interface]) -> Finding:
    """A whole name that is the beginning of others too."""
    text = _("{variable}={value} is the beginning of {names}; write ={value} for the one of that name")
    message = text.format(variable=variable, value=value[:LONGEST], names=_names(chosen))
    return _finding("ambiguous", message, variable, value, chosen, None, f"={value}")


def differ(picks: Mapping[str, Sequence[Interface]], variables: Mapping[str, str]) -> Finding:
    """One library's way is not the other's."""
    told = ", ".join(f"{variable}: {_names(chosen)}" for variable, chosen in picks.items())
    text = _("the libraries of one job are told different interfaces: {told}")
    return Finding(
        "socket-interfaces.differ",
        text.format(told=told),
        evidence=tuple(f"{variable}={variables[variable]}" for variable in picks),
        action=Action.CONFIG,
    )


def unset(taken: Interface, right: Interface, far: str, named_by: str) -> Finding:
    """HCCL would take the first interface by name, and the way to the others is another."""
    text = _("HCCL_SOCKET_IFNAME is not set: HCCL takes {taken}, the way to {far} ({named_by}) is {right}")
    message = text.format(taken=taken.name, far=far, named_by=named_by, right=right.name)
    return _finding("unset", message, HCCL, None, (taken, right), None, f"={right.name}")


def _names(chosen: Iterable[Interface]) -> str:
    return ", ".join(one.name for one in chosen)


def _finding(
    code: str,
    message: str,
    variable: str,
    value: Optional[str],
    seen: Iterable[Interface],
    severity: Optional[Severity],
    better: Optional[str],
    fix: Optional[Fix] = None,
) -> Finding:
    """`better`: the value that the fix sets; "" unsets the variable, None offers nothing."""
    lines = [one.described for one in seen]
    if better is not None:
        title = _("set {name} to {value}") if better else _("unset {name}")
        step = Export(variable, better) if better else Command(("unset", variable))
        undo = Export(variable, value).lines() if value is not None else (f"unset {variable}",)
        fix = Fix(title.format(name=variable, value=better), (step,), undo, Risk.MANUAL, needs_root=False)
    given = () if value is None else (f"{variable}={value[:LONGEST]}",)
    more = (f"... (+{len(lines) - SHOWN})",) if len(lines) > SHOWN else ()
    return Finding(
        f"socket-interfaces.{code}",
        message,
        severity=severity,
        evidence=(*given, *lines[:SHOWN], *more),
        action=Action.CONFIG,
        fix=fix,
    )
