"""Do MASTER_ADDR and its like name a machine, and the right one?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import (
    ERROR,
    INFO,
    WARNING,
    Action,
    Export,
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
)
from npudoctor.core.frozen import dataclass
from npudoctor.core.ports import parse_port
from npudoctor.facts.job.expected_accelerator import may_be_for_other_machines
from npudoctor.facts.job.input_cleanup import clean_up
from npudoctor.facts.job.local_addresses import is_local, is_same_host
from npudoctor.facts.job.nodes import is_rank_zero
from npudoctor.facts.job.peers import has_several_nodes

# The variables of torch.distributed, MindSpore, TensorFlow on HCCL, and Paddle.
NAMES = ("MASTER_ADDR", "MS_SCHED_HOST", "CM_CHIEF_IP", "PADDLE_MASTER")


@check(
    "master-address",
    scope=Scope.JOB,
    tags={"rendezvous"},
    needs=tuple(f"${name}" for name in NAMES),
    codes={
        "master-address.bad-value": ERROR,
        "master-address.bad-port": ERROR,
        "master-address.unresolvable": ERROR,
        "master-address.ipv6": ERROR,
        "master-address.loopback": ERROR,
        "master-address.not-ours": ERROR,
        "master-address.no-way": ERROR,
        "master-address.own-name": WARNING,
        "master-address.inner": WARNING,
    },
)
def master_address(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The master's address is correct and reachable from here.

    ## What it does

    Reads MASTER_ADDR (torchrun, torch.distributed, MindSpeed), MS_SCHED_HOST (msrun), CM_CHIEF_IP
    (TensorFlow) and PADDLE_MASTER, which includes its port. Resolves each name as the job's own getaddrinfo()
    would, in a child process, because a name server may not answer. No packet is sent to the master.

    - `master-address.bad-value`: the value is neither an address nor a host name: it has blanks, quotes, a
      protocol or a port in it. PADDLE_MASTER may begin with `etcd://` or `http://`.
    - `master-address.bad-port`: the port in MASTER_PORT, MS_SCHED_PORT, CM_CHIEF_PORT or PADDLE_MASTER is not
      valid.
    - `master-address.unresolvable`: this machine cannot resolve the name. If the name servers do not answer,
      the result is unknown.
    - `master-address.ipv6`: MS_SCHED_HOST resolves to IPv6 only, which MindSpore's scheduler does not accept.
    - `master-address.loopback`: in a job on several nodes, each node would connect to itself.
    - `master-address.own-name`: only /etc/hosts of this machine resolves the name to a loopback address, for
      example with Debian's line `127.0.1.1 host`. A program that looks up its own address, as Gloo does,
      sends the loopback address to the other nodes.
    - `master-address.not-ours`: rank 0 is here, but the address belongs to another machine. In a container
      only a warning, because its host may forward the port.
    - `master-address.no-way`: this machine has no route to the address.
    - `master-address.inner`: the address belongs to a bridge for containers or virtual machines here, such as
      docker0, and other nodes cannot reach it. The output of `hostname -I` may contain such an address.

    Whether the job has several nodes is read from --peers, WORLD_SIZE with LOCAL_WORLD_SIZE, Slurm, or
    NNODES. Where no job could run, as on a login node, every finding is information.

    ## Why it matters

    With a wrong address the ranks wait until a timeout ("connect() timed out", "The client socket has timed
    out"), or end with "host not found" or "Name or service not known". A job on one machine uses that
    machine's address; a job on several uses the master's, the same on all of them.

    ## Fix safety

    The line is shown only: all nodes need the same value.

    ## References

    torch.distributed (environment variable initialization); msrun; Debian Reference, "The hostname
    resolution"; HCCL environment variables CM_CHIEF_IP and CM_CHIEF_PORT; paddle.distributed.launch.
    """
    if not any(host.variables.get(name) for name in NAMES):
        raise Skip(_("no variable sets the master's address"))

    silent = []
    for name in NAMES:
        value = host.variables.get(name, "")
        if value:
            # All about one variable.
            place, port_name, port = _split_address(host, name, value)
            findings = [] if port is None else list(_judge_port(host, port_name, port, name))
            address = _parse_address(place)
            if address is None and not _is_name(place):
                result = AddressResult(
                    (
                        *findings,
                        _report_bad_value(
                            name, value, _strip_punctuation(value), _limit_severity(host, ERROR)
                        ),
                    )
                )
            else:
                meaning = host.names.resolve(place) if address is None else None
                if meaning is not None and not meaning.addresses:
                    if meaning.failed != "none":
                        result = AddressResult(tuple(findings), silent=True)
                    else:
                        result = AddressResult(
                            (*findings, _report_unresolvable(name, place, _limit_severity(host, ERROR)))
                        )
                else:
                    addresses = (
                        (address,) if meaning is None and address else meaning.addresses if meaning else ()
                    )
                    unique_addresses = tuple(dict.fromkeys(addresses))
                    finding = next(_judge_place(host, name, place, unique_addresses), None)
                    result = AddressResult((*findings, *([finding] if finding else [])), unique_addresses)
            yield from result.findings
            if result.addresses:
                yield Facts({name: list(result.addresses)})
            silent += [value] if result.silent else []
    if silent:
        raise Unknown(
            _("{names} could not be resolved", names=", ".join(silent)),
            advisory=may_be_for_other_machines(host),
        )


# The variable of the port, and the lowest port that its reader accepts: MindSpore's scheduler takes 1024 and
# above. PADDLE_MASTER contains its port.
_PORTS = {
    "MASTER_ADDR": ("MASTER_PORT", 0),
    "MS_SCHED_HOST": ("MS_SCHED_PORT", 1024),
    "CM_CHIEF_IP": ("CM_CHIEF_PORT", 0),
}
_SCHEMES = ("etcd://", "http://")  # which paddle.distributed.launch takes before it
# Letters, digits, hyphens and dots (RFC 1123), and the underscore of Docker Compose's names.
_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")


@dataclass(frozen=True)
class AddressResult:
    """The findings about one variable, the addresses that it resolves to, and whether no name server
    answered."""

    findings: tuple[Finding, ...]
    addresses: tuple[str, ...] = ()
    silent: bool = False


def _split_address(host: Host, variable: str, value: str) -> tuple[str, str, Optional[str]]:
    """Return the host name, the variable that names the port, and the port as text (None if unset)."""
    if variable != "PADDLE_MASTER":
        label, _lowest = _PORTS[variable]
        return value, label, host.variables.get(label) or None
    scheme = next((prefix for prefix in _SCHEMES if value.startswith(prefix)), "")
    host_name, colon, number = value[len(scheme) :].rpartition(":")
    if not colon or (":" in host_name and not host_name.endswith("]")):
        return value, variable, None
    return host_name.strip("[]"), variable, number


def _judge_port(host: Host, name: str, value: str, variable: str) -> Iterator[Finding]:
    lowest = _PORTS.get(variable, ("", 1))[1]
    try:
        parse_port(value, lowest)
    except ValueError as error:
        # hccl-ports reports the same about a port that this machine would bind.
        message = _(
            "{variable}={value} has no valid port: {why}",
            variable=name,
            value=value[:LONGEST],
            why=str(error),
        )
        yield Finding(
            "master-address.bad-port",
            message,
            severity=_limit_severity(host, ERROR),
            action=Action.CONFIG,
            echo_of=("hccl-ports.bad-value",),
        )


def _parse_address(text: str) -> Optional[str]:
    """Return an IP address in its normal form, without its zone; None if it is none. Brackets are not
    removed, because no resolver accepts them."""
    # `ipaddress` takes some milliseconds to import, and most runs do not come here.
    import ipaddress

    try:
        return str(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return None


def _is_name(text: str) -> bool:
    """Whether the text could be a host name. Digits and dots alone are none: they were meant as an
    address."""
    # 253 characters is the longest name in DNS (RFC 1035: 255 bytes on the wire).
    if len(text) > 253 or not set(text.lower()) <= _IN_NAMES or text.startswith(("-", ".")):
        return False
    return bool(set(text.lower()) - set("0123456789."))


def _strip_punctuation(value: str) -> str:
    """Return the value without quotes, protocol, port or brackets; "" if no address or name remains."""
    plain = clean_up(value).rpartition("//")[2].rstrip("/")
    host_name, colon, number = plain.rpartition(":")
    if colon and number.isdigit() and ":" not in host_name.strip("[]"):
        plain = host_name
    plain = plain.strip("[]")
    return plain if plain != value and (_parse_address(plain) or _is_name(plain)) else ""


def _judge_place(host: Host, variable: str, place: str, addresses: Sequence[str]) -> Iterator[Finding]:
    """Yield what is wrong with the address, the most important first; the caller reports only that."""
    import ipaddress

    is_multi_node, is_first = has_several_nodes(host), is_rank_zero(host)
    own_addresses = [address for address in addresses if is_local(host, address)]
    numbers = [ipaddress.ip_address(address.partition("%")[0]) for address in addresses]
    if variable == "MS_SCHED_HOST" and all(":" in address for address in addresses):
        # MindSpore's scheduler has no IPv6.
        text = _("{variable} is {value}: MindSpore's scheduler does not support IPv6")
        yield _finding("ipv6", _fill_sentence(text, variable, place, addresses), _limit_severity(host, ERROR))
    # Linux delivers packets to 0.0.0.0 and :: to this machine itself (RFC 1122 forbids them as a
    # destination).
    if all(number.is_loopback or number.is_unspecified for number in numbers):
        # Debian's /etc/hosts has 127.0.1.1 with the machine's own name (Debian Reference, "The hostname
        # resolution").
        if is_multi_node and is_same_host(place.lower(), host.system.name.lower()):
            # Only on this machine does its own name resolve to a loopback address.
            message = _(
                "{variable} is {value}, this machine's name, which resolves here to {addresses}, not to a "
                "NIC address",
                variable=variable,
                value=place,
                addresses=", ".join(addresses[:4]),
            )
            yield _finding(
                "own-name", message, _limit_severity(host, WARNING), variable, _better_address(host, True)
            )
        elif is_multi_node:
            yield _report_loopback(
                variable, place, _better_address(host, is_first), _limit_severity(host, ERROR)
            )
        return
    if is_first and not own_addresses:
        # The container's host may forward the port.
        worst = WARNING if host.system.is_container() else ERROR
        # Rank 0 runs here, but the address belongs to another machine.
        template = _(
            "{variable} is {value}, which is not an address of this machine, although rank 0 is here"
        )
        sentence = _fill_sentence(template, variable, place, addresses)
        yield _finding(
            "not-ours", sentence, _limit_severity(host, worst), variable, _better_address(host, True)
        )
    inner_names = [
        owner.name
        for address in own_addresses
        for owner in [host.network.interface_of_address(address)]
        if owner and owner.is_internal
    ]
    if is_multi_node and own_addresses and len(inner_names) == len(addresses):
        yield _report_inner(
            variable, place, inner_names[0], _better_address(host, True), _limit_severity(host, WARNING)
        )
    # A link-local address without its interface has no route that could be asked for.
    if not own_addresses and not any(
        address.lower().startswith("fe80") or host.network.route_to(address) is not None
        for address in addresses
    ):
        no_route = _("{variable} is {value}, but this machine has no route to it")
        yield _finding(
            "no-way", _fill_sentence(no_route, variable, place, addresses), _limit_severity(host, ERROR)
        )


def _better_address(host: Host, is_master_here: bool) -> str:
    """Return an address of this machine that other nodes can reach, if the master is here; else ""."""
    return next(
        (
            address.text
            for interface in host.network.interfaces()
            if is_master_here and interface.is_alive and not interface.is_internal
            for address in interface.addresses
            if address.scope == "global" and not address.ipv6
        ),
        "",
    )


def _limit_severity(host: Host, severity: Severity) -> Severity:
    return INFO if may_be_for_other_machines(host) else severity


LONGEST = 80  # of a value that is shown
# The code of trial-rendezvous for the same fault, if it is not `cannot-connect`.
TRIED = {"own-name": "own-name"}


def _report_bad_value(variable: str, value: str, cleaned: str, severity: Severity) -> Finding:
    """Report a value that is neither an address nor a name. `cleaned`: the corrected value, "" for none."""
    return _finding(
        "bad-value",
        _(
            "{variable} is {value}, which is neither an IP address nor a host name",
            variable=variable,
            value=value[:LONGEST],
        ),
        severity,
        variable,
        cleaned,
    )


def _report_unresolvable(variable: str, place: str, severity: Severity) -> Finding:
    """Report a name that does not resolve."""
    return _finding(
        "unresolvable",
        _("{variable} is {value}, a name that this machine cannot resolve", variable=variable, value=place),
        severity,
    )


def _report_loopback(variable: str, place: str, better: str, severity: Severity) -> Finding:
    """Report a loopback address in a job on several nodes: each node would connect to itself."""
    return _finding(
        "loopback",
        _(
            "{variable} is {value}: each of the job's nodes would look for the master on itself",
            variable=variable,
            value=place,
        ),
        severity,
        variable,
        better,
    )


def _report_inner(variable: str, place: str, interface: str, better: str, severity: Severity) -> Finding:
    """Report an address that only containers and virtual machines of this host can reach."""
    message = _(
        "{variable} is {value}, the address of {interface}, which other nodes cannot reach",
        variable=variable,
        value=place,
        interface=interface,
    )
    return _finding("inner", message, severity, variable, better)


def _fill_sentence(text: str, variable: str, place: str, addresses: Sequence[str]) -> str:
    """Return the sentence; a name is followed by its addresses."""
    meaning = ", ".join(addresses[:4])
    return text.format(variable=variable, value=place if meaning == place else f"{place} ({meaning})")


def _finding(code: str, message: str, severity: Severity, variable: str = "", better: str = "") -> Finding:
    fix = None
    if better and variable and variable != "PADDLE_MASTER":
        title = _("Set the master's address, the same on every node")
        fix = Fix(title, (Export(variable, better),), risk=Risk.MANUAL, needs_root=False)
    return Finding(
        f"master-address.{code}",
        message,
        severity=severity,
        action=Action.CONFIG,
        fix=fix,
        echo_of=() if severity is ERROR else (f"trial-rendezvous.{TRIED.get(code, 'cannot-connect')}",),
    )
