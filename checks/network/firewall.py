"""Whether the firewall lets the other nodes connect to the ports that a job binds here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import ERROR, Action, Facts, Finding, Host, Scope, Severity, Skip, Unknown, _, check, ngettext
from npudoctor.checks.network._firewall_fixes import Side, way_in, zone_of
from npudoctor.core.ports import Span, overlap, runs, spell, subtract
from npudoctor.facts.job.expected_accelerator import may_be_for_other_machines
from npudoctor.facts.job.nodes import is_here, is_rank_zero, node_count
from npudoctor.facts.job.ports import PortClaim, find_named_ports
from npudoctor.facts.leftovers.port_holders import abbreviate
from npudoctor.firewall.hooks import Firewall, PortVerdict
from npudoctor.firewall.inbound import Sender, any_senders, judge, senders, worst
from npudoctor.firewall.read import read_rules

MOST = 1024  # ports that are judged, of the widest range
_PLACES = {"MASTER_PORT": "MASTER_ADDR", "MS_SCHED_PORT": "MS_SCHED_HOST"}


@check(
    "firewall",
    scope=Scope.JOB,
    tags={"ports"},
    needs=("npu", "$HCCL_*", "$MASTER_*", "$MS_SCHED_*"),
    codes={"firewall.blocked": ERROR},
)
def firewall(host: Host) -> Iterator[Union[Finding, Facts]]:
    """The firewall lets other nodes reach the job's ports.

    ## What it does

    Takes the ports that the job will bind here, as `hccl-ports` does, and works out what the rules in the
    kernel do with a new TCP connection to each port. It follows all base chains of nftables and of iptables
    (either kind) in their order, with chains, sets, maps, interfaces, marks and connection states, for the
    first packet, its answer and the third. A port is `blocked` if one packet is surely dropped or rejected,
    and `open` if all surely pass. It is `unknown` if a rule cannot be judged and could matter. firewalld and
    ufw write their rules into the kernel, so they are judged too.

    With `--peers`, the check judges a connection from each of these addresses, on the interface by which the
    peer comes. Without it, the check judges connections from every address except this machine's: a default
    drop without any exception is `blocked`, one with exceptions is `unknown`.

    - `firewall.blocked`: an error where several nodes take part and other ranks need the port. A warning for
      HCCL's ports on a node that may not be the root, or where nothing says how many nodes there are.
      Information on a single node, or where no variable names the port.

    The facts say `open`, `blocked` or `unknown` for each port: the worst result of all peers. Of a range of
    more than 1024 ports the first 1024 are judged.

    Only root can read the rules, and only those of this network namespace: in a container with its own, the
    rules of the host are not judged. The check does not see eBPF programs (Cilium, XDP), ipsets, the state of
    rate limits, or firewalls between the machines.

    ## Why it matters

    A firewall that drops packets makes the other ranks wait until "connect() timed out" or EI0006; one that
    rejects them ends the ranks at once. The guides turn the whole firewall off; one rule is enough.

    ## Fix safety

    `npudoctor fix firewall --peers ADDR,... --risk caution` inserts the lines in front of the rule that
    drops, with the tool that manages the rules: firewall-cmd (once for now, once permanently), ufw, nft,
    iptables and ip6tables. Nothing else in the firewall changes. The administrator decides who may connect:
    without `--peers` the lines let everybody in. A rule that already exists is not inserted again. Then the
    check runs again.

    `npudoctor undo` removes what was inserted, and only that: a rule of nftables carries a comment by which
    its handle is found. Rules inserted by nft or iptables are gone after a reboot; those of firewalld and ufw
    stay. Where the firewalld zone is not clear, the lines are shown only.

    ## References

    nft(8), libnftables-json(5), iptables-extensions(8), firewall-cmd(1), ufw(8); "Netfilter hooks" in the
    nftables wiki; HCCL environment variables HCCL_IF_BASE_PORT, HCCL_HOST_SOCKET_PORT_RANGE.
    """
    claims = list(_claims(host))
    if not claims:
        raise Skip(_("no variable sets a port of this machine, and no NPU is used"))
    if not host.identity.is_root:
        raise Unknown(_("only root can read the firewall's rules"), advisory=True)

    answers = Answers(host, _ports(claims))
    if not answers.known:
        raise Skip(_("this machine has no address that another node could reach"))
    worst = answers.worst()
    yield Facts({f"tcp/{port}": worst[port] for port in sorted(worst)})
    for claim in claims:
        yield from _judge_claim(host, claim, answers)
    doubt = answers.doubt()
    if doubt:
        raise Unknown(doubt, advisory=not answers.must_know)


def _claims(host: Host) -> Iterator[PortClaim]:
    """What is surely bound here, as far as names tell."""
    for ports in find_named_ports(host):
        if not isinstance(ports, PortClaim) or not ports.spans:
            continue
        if ports.unsure:
            here = is_here(host, host.variables.get(_PLACES.get(ports.variable, ""), ""))
            if here is False or (here is None and not is_rank_zero(host)):
                continue
        yield ports


def _ports(claims: Sequence[PortClaim]) -> list[Span]:
    """The ports of all claims, cut where there are too many."""
    return list(dict.fromkeys(span for claim in claims for span in first_ports(claim.spans)))


def first_ports(spans: Sequence[Span]) -> Iterator[Span]:
    """As many of them as are judged."""
    left = MOST
    for low, high in spans:
        if left > 0:
            yield low, min(high, low + left - 1)
        left -= high - low + 1


Blocked = tuple[Sender, Span, PortVerdict]


class Answers:
    """What the firewall does with each caller on each port."""

    def __init__(self, host: Host, spans: Sequence[Span]) -> None:
        self._host, begun = host, host.clock.steady()
        self._lost: list[str] = []  # peers whose address nobody knows
        self.rules = read_rules(host)
        self.callers = list(senders(host, self._addresses()))
        self.for_peers = bool(self.callers or self._lost)
        if not self.for_peers:
            self.callers = any_senders(host)
        self.nodes = node_count(host)
        until = begun + host.options.timeout / 2
        firewall = Firewall(self.rules.tables, lambda: host.clock.steady() > until)
        unread = self.rules.unread
        self._judged = [
            # Rules that could not be read may drop what the others let through.
            (
                caller,
                span,
                PortVerdict("unknown", unread) if unread and verdict.answer == "open" else verdict,
            )
            for caller in self.callers
            for span, verdict in judge(firewall, caller, spans)
        ]
        self._ports = [port for low, high in spans for port in range(low, high + 1)]

    @property
    def known(self) -> bool:
        """Whether anybody could connect at all."""
        return bool(self.callers or self._lost)

    @property
    def must_know(self) -> bool:
        """Whether a verdict is needed: other nodes were named, and all rules could be read."""
        late = any(verdict.late for _c, _s, verdict in self._judged)
        unread = self.rules.unread or self.rules.unlent or late
        return self.for_peers and self.nodes != 1 and not unread

    def worst(self) -> dict[int, str]:
        """The verdict for each port, the worst of all callers; anybody must be let in or kept out in
        every family."""
        answers_of: dict[int, list[str]] = {port: [] for port in self._ports}
        for _caller, (low, high), verdict in self._judged:
            for port in range(low, high + 1):
                answers_of[port].append(verdict.answer)
        if self._lost:
            return {port: worst([*answers, "unknown"]) for port, answers in answers_of.items()}
        if self.for_peers:
            return {port: worst(answers) for port, answers in answers_of.items()}
        return {
            port: answers[0] if len(set(answers)) == 1 else "unknown" for port, answers in answers_of.items()
        }

    def blocked(self, spans: Sequence[Span]) -> list[Blocked]:
        """Who is surely kept out of which of these ports."""
        closed = {port for port, answer in self.worst().items() if answer == "blocked"}
        return [
            (caller, part, verdict)
            for caller, span, verdict in self._judged
            if verdict.answer == "blocked"
            for part in overlap([span], spans)
            if part[0] in closed
        ]

    def zone(self, caller: Sender, ports: Span) -> str:
        """The zone of firewalld by whose rules a caller is judged; empty where that is not clear."""
        firewall = Firewall(self.rules.tables)
        for _span, _verdict in judge(firewall, caller, [(ports[0], ports[0])]):
            zones = {zone_of(name) for name in firewall.visited} - {""}
        return zones.pop() if len(zones) == 1 else ""

    def doubt(self) -> str:
        """Why a verdict is missing; empty where none is."""
        open_ports = runs(port for port, answer in self.worst().items() if answer == "unknown")
        if not open_ports:
            return ""
        if self._lost:
            why = _("the address of {peers} is not known", peers=abbreviate(self._lost))
        elif self.rules.unread:
            why = "; ".join(self.rules.unread)
        elif any(verdict.late for _c, _s, verdict in self._judged):
            why = _("there are too many rules to evaluate in the time of this check")
        elif not self.for_peers:
            why = _("it depends on who connects: name the other nodes with --peers")
        else:
            places = (place for _c, _s, verdict in self._judged for place in verdict.places)
            why = _("it depends on rules that could not be evaluated: {rules}", rules=abbreviate(places, 3))
            why = "; ".join([why, *self.rules.unlent])
        return _(
            "could not determine whether the firewall lets others connect to TCP {ports}: {why}",
            ports=abbreviate((spell([span]) for span in open_ports), 8),
            why=why,
        )

    def _addresses(self) -> Iterator[str]:
        """The addresses of the peers; a name may have several, of which one is used."""
        for peer in self._host.options.peers:
            if _is_address(peer):
                yield peer
                continue
            addresses = self._host.names.meaning(peer).addresses
            if not addresses:
                self._lost.append(peer)
            yield from addresses[:1]


def _is_address(text: str) -> bool:
    """Whether it is an IP address, in brackets or with a zone."""
    import ipaddress

    try:
        ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True


def _judge_claim(host: Host, claim: PortClaim, answers: Answers) -> Iterator[Finding]:
    """The finding about the ports of one claim."""
    blocked = answers.blocked(claim.spans)
    if not blocked:
        return
    ports = runs(port for _c, (low, high), _v in blocked for port in range(low, high + 1))
    peers = list(dict.fromkeys(caller.name for caller, _s, _v in blocked if caller.name))
    places = tuple(dict.fromkeys(place for _c, _s, verdict in blocked for place in verdict.places))
    yield Finding(
        "firewall.blocked",
        ngettext(
            "The firewall blocks {who} from TCP port {ports} ({label}): {place}",
            "The firewall blocks {who} from TCP ports {ports} ({label}): {place}",
            sum(high - low + 1 for low, high in ports),
            who=abbreviate(peers) if peers else _("every other node"),
            ports=abbreviate((spell([span]) for span in ports), 8),
            label=claim.label,
            place=abbreviate(places, 3),
        ),
        severity=_weight(host, claim, answers, whole=subtract(claim.spans, ports) == ()),
        evidence=places[:8],
        action=Action.CONFIG,
        fix=way_in(
            host,
            list(dict.fromkeys(caller.name for caller, _s, _v in blocked)),
            ports,
            _sides(blocked),
            lambda: _zones(answers, blocked),
        ),
    )


def _zones(answers: Answers, blocked: Sequence[Blocked]) -> dict[str, str]:
    """The zone of each sender; of both families for anybody. Apart as only firewalld's lines ask for it."""
    zones: dict[str, set[str]] = {}
    for caller, span in {caller.packet: (caller, span) for caller, span, _v in blocked}.values():
        zones.setdefault(caller.name, set()).add(answers.zone(caller, span))
    return {name: names.pop() if len(names) == 1 else "" for name, names in zones.items()}


def _sides(blocked: Sequence[Blocked]) -> list[Side]:
    """The places that drop, with the side on which they do."""
    return list(
        dict.fromkeys(
            Side(place.partition(":")[0], place, leaving)
            for _c, _s, verdict in blocked
            for leaving, places in ((False, verdict.entering), (True, verdict.leaving))
            for place in places
        )
    )


def _weight(host: Host, claim: PortClaim, answers: Answers, whole: bool) -> Optional[Severity]:
    """None is the declared one: an error. HCCL takes the first free port of several, at the root."""
    several = answers.for_peers or (answers.nodes or 0) > 1
    elsewhere = not answers.for_peers and may_be_for_other_machines(host)
    if answers.nodes == 1 or elsewhere or (not several and not claim.variable):
        return Severity.INFO
    if not several:
        return Severity.WARNING
    if not claim.hccl:
        return None
    # HCCL's ranks meet at the first rank, beside the master.
    master = host.variables.get("MASTER_ADDR", "")
    root = whole and (is_rank_zero(host) or (bool(master) and is_here(host, master) is True))
    return None if root else Severity.WARNING
