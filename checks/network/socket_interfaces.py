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
# The severity of a name that matches no interface: HCCL and Gloo stop; TensorPipe warns and uses the address
# of the host's name; how NCCL reads names is general knowledge, not read in its source.
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
    variables = [name for name in WORST if name in host.variables and _is_relevant(host, name)]
    if not variables and not _is_hccl_choosing(host):
        raise Skip(_("no variable names an interface"))
    # Not at the top of the file: runs in which the check is skipped, or has nothing to judge here, do not
    # load it.
    from npudoctor.facts.job.peers import has_several_nodes

    several = has_several_nodes(host)
    picks: dict[str, Sequence[Interface]] = {}
    for variable in variables:
        pattern = _read_pattern(variable, host.variables[variable])
        if pattern is not None:
            usable = [
                interface for interface in pattern.of(host.network.interfaces()) if _is_useful(interface)
            ]
            picks[variable] = usable
        # The variables of a login node are for other machines, and HCCL ignores this one if HCCL_IF_IP is
        # set.
        is_unread = variable == HCCL and host.variables.get("HCCL_IF_IP")
        cap = INFO if is_unread or may_be_for_other_machines(host) else ERROR
        for finding in _judge(host, variable, pattern, several):
            if finding.severity is None or finding.code.endswith(("bad-value", "pasted-punctuation")):
                capped = finding
            else:
                capped = replace(finding, severity=min(finding.severity, cap))
            yield capped
    # `hccl_default`: the interface that HCCL takes where no variable names one; None where one does.
    from npudoctor.facts.job.interface_names import default_order

    default = default_order(host.network.interfaces())[:1] if _is_hccl_choosing(host) else []
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
    combined = list(_compare_libraries(host, picks, several))
    yield from combined
    if not picks and not combined:
        raise Skip(_("no variable names an interface"))


def _is_relevant(host: Host, variable: str) -> bool:
    """Whether a library that reads the variable could run here: HCCL needs an NPU, NCCL a GPU. True on a
    machine without any accelerator, where that is unknown."""
    if variable not in (HCCL, NCCL):
        return True
    npus, gpus = accelerators(host)
    return not (gpus and not npus) if variable == HCCL else not (npus and not gpus)


def _is_hccl_choosing(host: Host) -> bool:
    """Whether HCCL will choose an interface by itself: NPUs are here and neither variable is set."""
    return not {HCCL, "HCCL_IF_IP"} & {*host.variables} and accelerators(host)[0]


def _read_pattern(variable: str, value: str) -> Optional[NamePattern]:
    from npudoctor.facts.job.interface_names import read_names

    try:
        pattern = read_names(variable, value)
    except ValueError:
        # The caller reports what the value lacks; here it matches nothing.
        return None
    return pattern if pattern.names else None


def _is_useful(interface: Interface) -> bool:
    from npudoctor.facts.job.interface_names import usable_addresses

    return interface.is_alive and bool(usable_addresses(interface))


def _judge(host: Host, variable: str, pattern: Optional[NamePattern], several: bool) -> Iterator[Finding]:
    """Yield the first fault of a variable."""
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
    existing = host.network.interfaces()
    matching, missing = pattern.of(existing), pattern.missing(existing)
    if missing or not matching:
        yield _find_pasted(variable, value, existing, worst) or _report_missing(
            variable, value, missing, existing, worst
        )
        return
    alive = [interface for interface in matching if interface.is_alive]
    not_alive = [interface for interface in matching if interface not in alive]
    if not_alive and (pattern.each or not alive):
        # Within one node the address of an interface that is down still works; an interface without one does
        # not.
        is_harmless = not several and all(usable_addresses(interface) for interface in not_alive)
        yield _report_down(variable, value, not_alive, WARNING if is_harmless else worst)
        return
    without_address = [interface for interface in alive if not usable_addresses(interface)]
    if without_address and (pattern.each or len(without_address) == len(alive)):
        # Gloo accepts a link-local address too, even a tentative one, which works within one node.
        is_harmless = (
            variable == GLOO and not several and all(interface.addresses for interface in without_address)
        )
        yield _report_no_address(variable, value, without_address, INFO if is_harmless else worst)
        return
    yield from _judge_useful(
        variable,
        value,
        pattern,
        [interface for interface in alive if interface not in without_address],
        several,
    )


def _find_pasted(
    variable: str, value: str, existing: Sequence[Interface], severity: Severity
) -> Optional[Finding]:
    """Return a finding for a name with pasted blanks or punctuation; None if the rest matches no
    interface."""
    from npudoctor.facts.job.input_cleanup import clean_up

    # U+FF0C is the comma of a Chinese input method.
    cleaned = ",".join(clean_up(part) for part in clean_up(value).replace("，", ",").split(","))
    pattern = _read_pattern(variable, cleaned)
    if cleaned in ("", value) or pattern is None or not pattern.of(existing) or pattern.missing(existing):
        return None
    message = _(
        "{name} is {value}, with blanks or characters pasted from a document; probably {meant} was meant",
        name=variable,
        value=value[:LONGEST],
        meant=cleaned,
    )
    return _finding("pasted-punctuation", message, variable, value, (), severity, cleaned)


def _judge_useful(
    variable: str, value: str, pattern: NamePattern, useful: Sequence[Interface], several: bool
) -> Iterator[Finding]:
    """Judge interfaces that are up and have an address."""
    if all(interface.is_internal for interface in useful):
        if several:
            yield _report_inner(variable, value, useful, WARNING)
        elif not all(interface.loopback for interface in useful):
            yield _report_inner(variable, value, useful, INFO)
    elif not pattern.exact and len(useful) > 1 and value in {interface.name for interface in useful}:
        # eth1 also matches eth10, because HCCL and NCCL compare beginnings.
        message = _(
            "{variable}={value} is a prefix of {names}; write ={value} to match the exact name",
            variable=variable,
            value=value[:LONGEST],
            names=_names(useful),
        )
        yield _finding("ambiguous", message, variable, value, useful, None, f"={value}")


def _compare_libraries(host: Host, picks: dict[str, Sequence[Interface]], several: bool) -> Iterator[Finding]:
    """Report libraries that use different interfaces, and an interface that HCCL would choose although the
    route to the master uses another."""
    picked = {name: interfaces for name, interfaces in picks.items() if interfaces}
    indices = [{interface.index for interface in interfaces} for interfaces in picked.values()]
    if several and len(picked) > 1 and not set.intersection(*indices):
        # Both libraries must reach the same nodes: no common interface means that one of them may not.
        listing = ", ".join(f"{variable}: {_names(interfaces)}" for variable, interfaces in picked.items())
        yield Finding(
            "socket-interfaces.differ",
            _("the libraries of this job are set to different interfaces: {told}", told=listing),
            evidence=tuple(f"{variable}={host.variables[variable]}" for variable in picked),
            action=Action.CONFIG,
        )
    if several and _is_hccl_choosing(host):
        from npudoctor.facts.job.interface_names import default_order
        from npudoctor.facts.job.peers import find_first_peer

        order = default_order(host.network.interfaces())
        if not len([interface for interface in order if not interface.loopback]) < 2:
            peer = find_first_peer(host)
            route = host.network.route_to(peer.address) if peer else None
            route_interface = host.network.interface_at(route.index) if route else None
            if (
                peer
                and route_interface
                and route_interface in order
                and route_interface.index != order[0].index
            ):
                # HCCL would take the first interface by name, and the way to the others is another.
                chosen = order[0]
                message = _(
                    "HCCL_SOCKET_IFNAME is not set: HCCL takes {taken}, but the route to {far} ({named_by}) "
                    "uses {right}",
                    taken=chosen.name,
                    far=peer.address,
                    named_by=peer.named_by,
                    right=route_interface.name,
                )
                yield _finding(
                    "unset", message, HCCL, None, (chosen, route_interface), None, f"={route_interface.name}"
                )


SHOWN = 16  # interfaces in the evidence
LONGEST = 200  # characters of a value that are shown


def _report_missing(
    variable: str, value: str, names: Sequence[str], existing: Iterable[Interface], severity: Severity
) -> Finding:
    """Report that no interface matches. `names`: those of an exact list that do not exist."""
    if names:
        text = _("{variable}={value}: this machine has no interface {names}")
    else:
        text = _("{variable}={value} matches no interface of this machine")
    message = text.format(variable=variable, value=value[:LONGEST], names=", ".join(names)[:LONGEST])
    # Gloo and TensorPipe compare whole names; ^ and = are syntax of HCCL and NCCL.
    if any(name[:1] in "^=" for name in names if name):
        message += " " + _("({variable} accepts exact names only)", variable=variable)
    useful = [interface.name for interface in existing if _is_useful(interface) and not interface.is_internal]
    if len(useful) < 2:
        return _finding(
            "missing", message, variable, value, existing, severity, useful[0] if useful else None
        )
    words = {"variable": variable, "names": ", ".join(useful)[:LONGEST]}
    choice = Fix(
        _(
            "set {variable} in the launch script to the one of {names} that leads to the other nodes",
            **words,
        ),
        risk=Risk.MANUAL,
        needs_root=False,
    )
    return _finding("missing", message, variable, value, existing, severity, None, choice)


def _report_down(variable: str, value: str, down: Sequence[Interface], severity: Severity) -> Finding:
    """Report interfaces that are down."""
    message = _(
        "{variable}={value}: {names} is down", variable=variable, value=value[:LONGEST], names=_names(down)
    )
    fix = None
    if len(down) == 1 and not down[0].up:
        link_command = ("ip", "link", "set", "dev", down[0].name)
        line = Command((*link_command, "up"), (*link_command, "down"))
        title = _("bring {name} up", name=down[0].name)
        fix = Fix(title, (line,), risk=Risk.CAUTION)
    return _finding("down", message, variable, value, down, severity, None, fix)


def _report_no_address(
    variable: str, value: str, interfaces: Sequence[Interface], severity: Severity
) -> Finding:
    """Report interfaces without an address that other nodes could use."""
    message = _(
        "{variable}={value}: {names} has no address that other nodes could use",
        variable=variable,
        value=value[:LONGEST],
        names=_names(interfaces),
    )
    return _finding("no-address", message, variable, value, interfaces, severity, None)


def _report_inner(variable: str, value: str, interfaces: Sequence[Interface], severity: Severity) -> Finding:
    """Report interfaces that lead only to containers or virtual machines of this host."""
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
    interfaces: Iterable[Interface],
    severity: Optional[Severity],
    better: Optional[str],
    fix: Optional[Fix] = None,
) -> Finding:
    """Return the finding. `better`: the value that the fix sets; "" unsets the variable, None gives no
    fix."""
    lines = [interface.description for interface in interfaces]
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
