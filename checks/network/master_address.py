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

    torch.distributed (environment variable initialisation); msrun; Debian Reference, "The hostname
    resolution"; HCCL environment variables CM_CHIEF_IP and CM_CHIEF_PORT; paddle.distributed.launch.
    """
    if not any(host.variables.get(name) for name in NAMES):
        raise Skip(_("no variable sets the master's address"))

    silent = []
    for name in NAMES:
        value = host.variables.get(name, "")
        if value:
            # All about one variable.
            place, port_name, port = _parts(host, name, value)
            findings = [] if port is None else list(_port(host, port_name, port, name))
            address = _address(place)
            if address is None and not _is_name(place):
                answer = Answer(
                    (*findings, _bad_value(name, value, _strip_punctuation(value), _weight(host, ERROR)))
                )
            else:
                meaning = host.names.meaning(place) if address is None else None
                if meaning is not None and not meaning.addresses:
                    if meaning.failed != "none":
                        answer = Answer(tuple(findings), silent=True)
                    else:
                        answer = Answer((*findings, _unresolvable(name, place, _weight(host, ERROR))))
                else:
                    addresses = (
                        (address,) if meaning is None and address else meaning.addresses if meaning else ()
                    )
                    seen = tuple(dict.fromkeys(addresses))
                    wrong = next(_judge_place(host, name, place, seen), None)
                    answer = Answer((*findings, *([wrong] if wrong else [])), seen)
            yield from answer.findings
            if answer.addresses:
                yield Facts({name: list(answer.addresses)})
            silent += [value] if answer.silent else []
    if silent:
        raise Unknown(
            _("{names} could not be resolved", names=", ".join(silent)),
            advisory=may_be_for_other_machines(host),
        )


# The port beside an address, and the lowest that is taken; PADDLE_MASTER has it inside.
_PORTS = {
    "MASTER_ADDR": ("MASTER_PORT", 0),
    "MS_SCHED_HOST": ("MS_SCHED_PORT", 1024),
    "CM_CHIEF_IP": ("CM_CHIEF_PORT", 0),
}
_SCHEMES = ("etcd://", "http://")  # which paddle.distributed.launch takes before it
_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")


@dataclass(frozen=True)
class Answer:
    """What is wrong, what the value means, and whether nobody said that in time."""

    findings: tuple[Finding, ...]
    addresses: tuple[str, ...] = ()
    silent: bool = False


def _parts(host: Host, variable: str, value: str) -> tuple[str, str, Optional[str]]:
    """The host, and the port with the variable that names it."""
    if variable != "PADDLE_MASTER":
        label, _lowest = _PORTS[variable]
        return value, label, host.variables.get(label) or None
    scheme = next((prefix for prefix in _SCHEMES if value.startswith(prefix)), "")
    host_name, colon, number = value[len(scheme) :].rpartition(":")
    if not colon or (":" in host_name and not host_name.endswith("]")):
        return value, variable, None
    return host_name.strip("[]"), variable, number


def _port(host: Host, name: str, value: str, variable: str) -> Iterator[Finding]:
    lowest = _PORTS.get(variable, ("", 1))[1]
    try:
        parse_port(value, lowest)
    except ValueError as error:
        # A port that is none; hccl-ports says the same of those that would be bound here.
        message = _(
            "{variable}={value} has no valid port: {why}",
            variable=name,
            value=value[:LONGEST],
            why=str(error),
        )
        yield Finding(
            "master-address.bad-port",
            message,
            severity=_weight(host, ERROR),
            action=Action.CONFIG,
            echo_of=("hccl-ports.bad-value",),
        )


def _address(text: str) -> Optional[str]:
    """The usual spelling of an IP address, without its zone; None for brackets, which no resolver takes."""
    import ipaddress

    try:
        return str(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return None


def _is_name(text: str) -> bool:
    """Whether it could be a host name; four numbers that are no address are none."""
    if len(text) > 253 or not set(text.lower()) <= _IN_NAMES or text.startswith(("-", ".")):
        return False
    return bool(set(text.lower()) - set("0123456789."))


def _strip_punctuation(value: str) -> str:
    """The value without what a document or a browser puts around it; empty where that is no address."""
    plain = clean_up(value).rpartition("//")[2].rstrip("/")
    host_name, colon, number = plain.rpartition(":")
    if colon and number.isdigit() and ":" not in host_name.strip("[]"):
        plain = host_name
    plain = plain.strip("[]")
    return plain if plain != value and (_address(plain) or _is_name(plain)) else ""


def _judge_place(host: Host, variable: str, place: str, addresses: Sequence[str]) -> Iterator[Finding]:
    """What is wrong with the address; the first is what matters."""
    import ipaddress

    several, first = has_several_nodes(host), is_rank_zero(host)
    ours = [address for address in addresses if is_local(host, address)]
    numbers = [ipaddress.ip_address(address.partition("%")[0]) for address in addresses]
    if variable == "MS_SCHED_HOST" and all(":" in address for address in addresses):
        # MindSpore's scheduler has no IPv6.
        text = _("{variable} is {value}: MindSpore's scheduler does not support IPv6")
        yield _finding("ipv6", _fill_sentence(text, variable, place, addresses), _weight(host, ERROR))
    # A packet to the unspecified address does not leave the machine either.
    if all(number.is_loopback or number.is_unspecified for number in numbers):
        if several and is_same_host(place.lower(), host.system.name.lower()):
            # Our own name, which only here means a loopback address.
            message = _(
                "{variable} is {value}, this machine's name, which resolves here to {addresses}, not to a "
                "NIC address",
                variable=variable,
                value=place,
                addresses=", ".join(addresses[:4]),
            )
            yield _finding("own-name", message, _weight(host, WARNING), variable, _better(host, True))
        elif several:
            yield _loopback(variable, place, _better(host, first), _weight(host, ERROR))
        return
    if first and not ours:
        worst = WARNING if host.system.container() else ERROR
        # Rank 0 is here, its address elsewhere.
        template = _(
            "{variable} is {value}, which is not an address of this machine, although rank 0 is here"
        )
        sentence = _fill_sentence(template, variable, place, addresses)
        yield _finding("not-ours", sentence, _weight(host, worst), variable, _better(host, True))
    inner = [
        owner.name for address in ours for owner in [host.network.owner_of(address)] if owner and owner.inner
    ]
    if several and ours and len(inner) == len(addresses):
        yield _inner(variable, place, inner[0], _better(host, True), _weight(host, WARNING))
    # Of a link-local address the address alone does not say where it leads.
    if not ours and not any(
        address.lower().startswith("fe80") or host.network.route_to(address) is not None
        for address in addresses
    ):
        no_route = _("{variable} is {value}, but this machine has no route to it")
        yield _finding("no-way", _fill_sentence(no_route, variable, place, addresses), _weight(host, ERROR))


def _better(host: Host, here: bool) -> str:
    """An address of ours that others may reach, where the master is here."""
    return next(
        (
            address.text
            for interface in host.network.interfaces()
            if here and interface.alive and not interface.inner
            for address in interface.addresses
            if address.scope == "global" and not address.ipv6
        ),
        "",
    )


def _weight(host: Host, severity: Severity) -> Severity:
    return INFO if may_be_for_other_machines(host) else severity


LONGEST = 80  # of a value that is shown
# What the trial of the rendezvous calls it; all else is `cannot-connect` there.
TRIED = {"own-name": "own-name"}


def _bad_value(variable: str, value: str, meant: str, severity: Severity) -> Finding:
    """What can be neither looked up nor connected to."""
    return _finding(
        "bad-value",
        _(
            "{variable} is {value}, which is neither an IP address nor a host name",
            variable=variable,
            value=value[:LONGEST],
        ),
        severity,
        variable,
        meant,
    )


def _unresolvable(variable: str, place: str, severity: Severity) -> Finding:
    """A name that nobody knows."""
    return _finding(
        "unresolvable",
        _("{variable} is {value}, a name that this machine cannot resolve", variable=variable, value=place),
        severity,
    )


def _loopback(variable: str, place: str, better: str, severity: Severity) -> Finding:
    """Every node would connect to itself."""
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


def _inner(variable: str, place: str, interface: str, better: str, severity: Severity) -> Finding:
    """An address for what runs on this machine only."""
    message = _(
        "{variable} is {value}, the address of {interface}, which other nodes cannot reach",
        variable=variable,
        value=place,
        interface=interface,
    )
    return _finding("inner", message, severity, variable, better)


def _fill_sentence(text: str, variable: str, place: str, addresses: Sequence[str]) -> str:
    """The sentence, with what a name means behind it."""
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
