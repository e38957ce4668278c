"""Are the network interfaces that the job is told to use there, up, and the same for all its libraries?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from npudoctor.core.frozen import replace
from npudoctor.facts.job.expected_accelerator import accelerators, may_be_for_other_machines
from npudoctor.host.network.interfaces import Interface

if TYPE_CHECKING:
    from npudoctor.facts.job.interface_names import NamePattern

HCCL, GLOO, TENSORPIPE, NCCL = (f"{prefix}_SOCKET_IFNAME" for prefix in ("HCCL", "GLOO", "TP", "NCCL"))
# What a name that leads nowhere does: HCCL and Gloo stop; TensorPipe warns and takes the host's name; how
# NCCL reads names is general knowledge, not read in its source.
WORST = {HCCL: ERROR, GLOO: ERROR, TENSORPIPE: WARNING, NCCL: WARNING}


@check(
    "socket-interfaces",
    scope=Scope.JOB,
    tags={"hccl", "nccl"},
    needs=(
        "npu",
        "gpu",
        "$HCCL_SOCKET_IFNAME",
        "$GLOO_SOCKET_IFNAME",
        "$TP_SOCKET_IFNAME",
        "$NCCL_SOCKET_IFNAME",
    ),
    codes={
        "socket-interfaces.bad-value": ERROR,
        "socket-interfaces.pasted-punctuation": ERROR,
        "socket-interfaces.missing": ERROR,
        "socket-interfaces.down": ERROR,
        "socket-interfaces.no-address": ERROR,
        "socket-interfaces.inner": WARNING,
        "socket-interfaces.ambiguous": INFO,
        "socket-interfaces.differ": INFO,
        "socket-interfaces.unset": INFO,
    },
    compares=(
        Compared("hccl_default", "HCCL default interface", complete=True),
        Compared("interfaces"),
        Compared("mtu.*", "interface MTU"),
    ),
)
def socket_interfaces(host: Host) -> Iterator[Union[Finding, Facts]]:
    """Network interfaces exist, are up and match across libraries.

    ## What it does

    Reads HCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, TP_SOCKET_IFNAME and NCCL_SOCKET_IFNAME as their libraries
    do, and asks the kernel for the interfaces of this network namespace. HCCL and NCCL accept `eth`
    (beginning), `=eth0` (whole name), `^docker` (all but these beginnings), `^=eth0`, each with more names
    after commas. Gloo accepts whole names separated by commas, TensorPipe one whole name.

    - `socket-interfaces.bad-value`: the list contains an empty name: HCCL stops with EI0001.
    - `socket-interfaces.pasted-punctuation`: blanks, quotes or full-width characters around a name.
    - `socket-interfaces.missing`, `socket-interfaces.down`, `socket-interfaces.no-address`: none of the
      interfaces exists, is up, or has an address. Of Gloo's list each one must. An error for HCCL and Gloo, a
      warning for the others. A warning for a job on one node when the interface is down and has an address.
      Information for Gloo on one node where there is a link-local address, which Gloo uses.
    - `socket-interfaces.inner`: lo, docker, veth, cali, flannel and similar interfaces, which other nodes
      cannot reach. Information for a job on one node, where lo is fine.
    - `socket-interfaces.ambiguous`: HCCL or NCCL reads a whole name as the beginning of other names too.
    - `socket-interfaces.differ`: in a job on several nodes the variables name different interfaces.
    - `socket-interfaces.unset`: HCCL would choose the first interface by name, but the route to the master
      uses another. Reported only in a job on several nodes whose master or peers are known.

    HCCL_IF_IP takes precedence over HCCL_SOCKET_IFNAME: findings about the latter are then information. On a
    machine without an accelerator, all findings are. NCCL_SOCKET_IFNAME is ignored where there are only NPUs.

    ## Why it matters

    The ranks send each other these addresses. An address that nobody can reach causes a timeout of minutes on
    all nodes: EI0006, EI0015, `Gloo connectFullMesh failed`.

    ## Fix safety

    Lines that set variables are for the shell that starts the job. `npudoctor fix --risk caution` switches on
    an interface that is off: other programs of the machine may be meant to use other routes. `npudoctor undo`
    switches it off again; the kernel then drops its IPv6 addresses.

    ## References

    - hicann/hccl: HCCL_SOCKET_IFNAME; PyTorch, "Common environment variables"; NCCL_SOCKET_IFNAME.
    """
    variables = [name for name in WORST if name in host.variables and _concerns(host, name)]
    if not variables and not _left_to_hccl(host):
        raise Skip(_("no variable names an interface"))
    from npudoctor.facts.job.peers import has_several_nodes

    several = has_several_nodes(host)
    picks: dict[str, Sequence[Interface]] = {}
    for variable in variables:
        pattern = _read(variable, host.variables[variable])
        if pattern is not None:
            usable = [interface for interface in pattern.of(host.network.interfaces()) if _useful(interface)]
            picks[variable] = usable
        # A login node's variables are for other machines; HCCL does not look where HCCL_IF_IP is set.
        unread = variable == HCCL and host.variables.get("HCCL_IF_IP")
        cap = INFO if unread or may_be_for_other_machines(host) else ERROR
        for finding in _judge(host, variable, pattern, several):
            if finding.severity is None or finding.code.endswith(("bad-value", "pasted-punctuation")):
                at_most = finding
            else:
                at_most = replace(finding, severity=min(finding.severity, cap))
            yield at_most
    # `hccl_default`: the interface that HCCL takes where no variable names one; None where one does.
    from npudoctor.facts.job.interface_names import default_order

    default = default_order(host.network.interfaces())[:1] if _left_to_hccl(host) else []
    used = [*default, *(interface for interfaces in picks.values() for interface in interfaces)]
    yield Facts(
        {
            "interfaces": {
                name: [interface.name for interface in interfaces] for name, interfaces in picks.items()
            },
            "hccl_default": default[0].name if default else None,
            "mtu": {
                interface.name: mtu
                for interface in used
                for mtu in [host.network.mtu_of(interface.name)]
                if mtu
            },
        }
    )
    together = list(_together(host, picks, several))
    yield from together
    if not picks and not together:
        raise Skip(_("no variable names an interface"))


def _concerns(host: Host, variable: str) -> bool:
    """Whether a library that reads it could run here; without any accelerator nobody knows. Apart as
    the accelerators are looked for only where one of these two variables is set."""
    if variable not in (HCCL, NCCL):
        return True
    npus, gpus = accelerators(host)
    return not (gpus and not npus) if variable == HCCL else not (npus and not gpus)


def _left_to_hccl(host: Host) -> bool:
    """Whether HCCL will choose an interface by itself."""
    return not {HCCL, "HCCL_IF_IP"} & {*host.variables} and accelerators(host)[0]


def _read(variable: str, value: str) -> Optional[NamePattern]:
    from npudoctor.facts.job.interface_names import read_names

    try:
        pattern = read_names(variable, value)
    except ValueError:
        return None
    return pattern if pattern.names else None


def _useful(interface: Interface) -> bool:
    from npudoctor.facts.job.interface_names import usable_addresses

    return interface.alive and bool(usable_addresses(interface))


def _judge(host: Host, variable: str, pattern: Optional[NamePattern], several: bool) -> Iterator[Finding]:
    """The first thing that is wrong with a variable."""
    from npudoctor.facts.job.interface_names import read_names, usable_addresses

    value, worst = host.variables[variable], WORST[variable]
    if pattern is None:
        if variable == HCCL:  # the others look at nothing shorter than a name
            try:
                read_names(variable, value)
            except ValueError as error:
                # A value that its reader refuses.
                text = _(
                    "{variable}={value} cannot be used: {why}",
                    variable=variable,
                    value=value[:LONGEST],
                    why=str(error),
                )
                yield _finding("bad-value", text, variable, value, (), worst if value else WARNING, "")
        return
    there = host.network.interfaces()
    named, missing = pattern.of(there), pattern.missing(there)
    if missing or not named:
        yield _find_pasted(variable, value, there, worst) or _report_missing(
            variable, value, missing, there, worst
        )
        return
    alive = [interface for interface in named if interface.alive]
    silent = [interface for interface in named if interface not in alive]
    if silent and (pattern.each or not alive):
        # On one node the address of a switched off interface is as good as any, and none is none.
        well = not several and all(usable_addresses(interface) for interface in silent)
        yield _down(variable, value, silent, WARNING if well else worst)
        return
    bare = [interface for interface in alive if not usable_addresses(interface)]
    if bare and (pattern.each or len(bare) == len(alive)):
        # Gloo takes a link-local address, too, ready or not, which within a node is as good as any.
        well = variable == GLOO and not several and all(interface.addresses for interface in bare)
        yield _no_address(variable, value, bare, INFO if well else worst)
        return
    yield from _judge_useful(
        variable, value, pattern, [interface for interface in alive if interface not in bare], several
    )


def _find_pasted(
    variable: str, value: str, there: Sequence[Interface], severity: Severity
) -> Optional[Finding]:
    """A name with blanks or the punctuation of a document about it; None where it is none without these."""
    from npudoctor.facts.job.input_cleanup import clean_up

    meant = ",".join(clean_up(part) for part in clean_up(value).replace("，", ",").split(","))
    pattern = _read(variable, meant)
    if meant in ("", value) or pattern is None or not pattern.of(there) or pattern.missing(there):
        return None
    message = _(
        "{name} is {value}, with blanks or characters pasted from a document; probably {meant} was meant",
        name=variable,
        value=value[:LONGEST],
        meant=meant,
    )
    return _finding("pasted-punctuation", message, variable, value, (), severity, meant)


def _judge_useful(
    variable: str, value: str, pattern: NamePattern, useful: Sequence[Interface], several: bool
) -> Iterator[Finding]:
    """What is to be said of interfaces that work."""
    if all(interface.inner for interface in useful):
        if several:
            yield _inner(variable, value, useful, WARNING)
        elif not all(interface.loopback for interface in useful):
            yield _inner(variable, value, useful, INFO)
    elif not pattern.exact and len(useful) > 1 and value in {interface.name for interface in useful}:
        # A whole name that is the beginning of others too.
        message = _(
            "{variable}={value} is a prefix of {names}; write ={value} to match the exact name",
            variable=variable,
            value=value[:LONGEST],
            names=_names(useful),
        )
        yield _finding("ambiguous", message, variable, value, useful, None, f"={value}")


def _together(host: Host, picks: dict[str, Sequence[Interface]], several: bool) -> Iterator[Finding]:
    """One interface for all; and the one that HCCL takes unasked."""
    picked = {name: interfaces for name, interfaces in picks.items() if interfaces}
    indices = [{interface.index for interface in interfaces} for interfaces in picked.values()]
    if several and len(picked) > 1 and not set.intersection(*indices):
        # One library's way is not the other's.
        listing = ", ".join(f"{variable}: {_names(interfaces)}" for variable, interfaces in picked.items())
        yield Finding(
            "socket-interfaces.differ",
            _("the libraries of this job are set to different interfaces: {told}", told=listing),
            evidence=tuple(f"{variable}={host.variables[variable]}" for variable in picked),
            action=Action.CONFIG,
        )
    if several and _left_to_hccl(host):
        from npudoctor.facts.job.interface_names import default_order
        from npudoctor.facts.job.peers import find_first_peer

        order = default_order(host.network.interfaces())
        if not len([interface for interface in order if not interface.loopback]) < 2:
            far = find_first_peer(host)
            way = host.network.route_to(far.address) if far else None
            right = host.network.at(way.index) if way else None
            if far and right and right in order and right.index != order[0].index:
                # HCCL would take the first interface by name, and the way to the others is another.
                taken = order[0]
                message = _(
                    "HCCL_SOCKET_IFNAME is not set: HCCL takes {taken}, but the route to {far} ({named_by}) "
                    "uses {right}",
                    taken=taken.name,
                    far=far.address,
                    named_by=far.named_by,
                    right=right.name,
                )
                yield _finding("unset", message, HCCL, None, (taken, right), None, f"={right.name}")


SHOWN = 16  # interfaces in the evidence
LONGEST = 200  # characters of a value that are shown


def _report_missing(
    variable: str, value: str, names: Sequence[str], there: Iterable[Interface], severity: Severity
) -> Finding:
    """No interface is called so."""
    if names:
        text = _("{variable}={value}: this machine has no interface {names}")
    else:
        text = _("{variable}={value} matches no interface of this machine")
    message = text.format(variable=variable, value=value[:LONGEST], names=", ".join(names)[:LONGEST])
    if any(name[:1] in "^=" for name in names if name):
        message += " " + _("({variable} accepts exact names only)", variable=variable)
    useful = [interface.name for interface in there if _useful(interface) and not interface.inner]
    if len(useful) < 2:
        return _finding("missing", message, variable, value, there, severity, useful[0] if useful else None)
    words = {"variable": variable, "names": ", ".join(useful)[:LONGEST]}
    choice = Fix(
        _(
            "set {variable} in the launch script to the one of {names} that leads to the other nodes",
            **words,
        ),
        risk=Risk.MANUAL,
        needs_root=False,
    )
    return _finding("missing", message, variable, value, there, severity, None, choice)


def _down(variable: str, value: str, down: Sequence[Interface], severity: Severity) -> Finding:
    """An interface through which nothing can leave."""
    message = _(
        "{variable}={value}: {names} is down", variable=variable, value=value[:LONGEST], names=_names(down)
    )
    fix = None
    if len(down) == 1 and not down[0].up:
        way = ("ip", "link", "set", "dev", down[0].name)
        line = Command((*way, "up"), (*way, "down"))
        title = _("bring {name} up", name=down[0].name)
        fix = Fix(title, (line,), risk=Risk.CAUTION)
    return _finding("down", message, variable, value, down, severity, None, fix)


def _no_address(variable: str, value: str, interfaces: Sequence[Interface], severity: Severity) -> Finding:
    """An interface that nobody can be told to connect to."""
    message = _(
        "{variable}={value}: {names} has no address that other nodes could use",
        variable=variable,
        value=value[:LONGEST],
        names=_names(interfaces),
    )
    return _finding("no-address", message, variable, value, interfaces, severity, None)


def _inner(variable: str, value: str, interfaces: Sequence[Interface], severity: Severity) -> Finding:
    """An interface that leads to containers of this host only."""
    message = _(
        "{variable}={value}: {names} is internal to this machine",
        variable=variable,
        value=value[:LONGEST],
        names=_names(interfaces),
    )
    return _finding("inner", message, variable, value, interfaces, severity, None)


def _names(interfaces: Iterable[Interface]) -> str:
    return ", ".join(interface.name for interface in interfaces)


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
    lines = [interface.described for interface in seen]
    if better is not None:
        title = _("set {name} to {value}") if better else _("unset {name}")
        step = Export(variable, better) if better else Command(("unset", variable))
        undo = Export(variable, value).lines() if value is not None else (f"unset {variable}",)
        fix = Fix(title.format(name=variable, value=better), (step,), undo, Risk.MANUAL, needs_root=False)
    evidence = () if value is None else (f"{variable}={value[:LONGEST]}",)
    more = (f"... (+{len(lines) - SHOWN})",) if len(lines) > SHOWN else ()
    return Finding(
        f"socket-interfaces.{code}",
        message,
        severity=severity,
        evidence=(*evidence, *lines[:SHOWN], *more),
        action=Action.CONFIG,
        fix=fix,
    )
