"""Whether the firewall lets the other nodes connect to the ports that a job binds here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional, Union

from npudoctor import ERROR, Action, Facts, Finding, Host, Scope, Severity, Skip, Unknown, _, check, ngettext
from npudoctor.checks.network._firewall_fixes import Blocker, open_ports_fix, zone_of
from npudoctor.core.ports import Span, overlap, runs, spell, subtract
from npudoctor.facts.job.expected_accelerator import may_be_for_other_machines
from npudoctor.facts.job.nodes import is_here, is_rank_zero, node_count
from npudoctor.facts.job.ports import PortClaim, find_named_ports
from npudoctor.facts.leftovers.port_holders import abbreviate
from npudoctor.firewall.hooks import Firewall, PortVerdict
from npudoctor.firewall.inbound import Sender, find_any_senders, find_senders, judge_ports, worst_answer
from npudoctor.firewall.read import read_rules

# Each port is followed through all rules, and ranges such as 1024-65535 occur.
MOST = 1024  # ports that are judged, of the widest range
# The variable of the address that belongs to each port variable.
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
    without `--peers` the lines let everyone in. A rule that already exists is not inserted again. Then the
    check runs again.

    `npudoctor undo` removes what was inserted, and only that: a rule of nftables carries a comment by which
    its handle is found. Rules inserted by nft or iptables are gone after a reboot; those of firewalld and ufw
    stay. Where the firewalld zone is not clear, the lines are shown only.

    ## References

    nft(8), libnftables-json(5), iptables-extensions(8), firewall-cmd(1), ufw(8); "Netfilter hooks" in the
    nftables wiki; HCCL environment variables HCCL_IF_BASE_PORT, HCCL_HOST_SOCKET_PORT_RANGE.
    """
    claims = list(_find_claims(host))
    if not claims:
        raise Skip(_("no variable sets a port of this machine, and no NPU is used"))
    # nft and iptables need CAP_NET_ADMIN even to list rules.
    if not host.identity.is_root:
        raise Unknown(_("only root can read the firewall's rules"), advisory=True)

    verdicts = CallerVerdicts(host, _ports(claims))
    if not verdicts.has_callers:
        raise Skip(_("this machine has no address that another node could reach"))
    worst_by_port = verdicts.worst()
    yield Facts({f"tcp/{port}": worst_by_port[port] for port in sorted(worst_by_port)})
    for claim in claims:
        yield from _judge_claim(host, claim, verdicts)
    doubt = verdicts.doubt()
    if doubt:
        raise Unknown(doubt, advisory=not verdicts.is_verdict_needed)


def _find_claims(host: Host) -> Iterator[PortClaim]:
    """Yield the claims on ports that the job surely binds on this machine, as far as variables and names
    tell."""
    for ports in find_named_ports(host):
        if not isinstance(ports, PortClaim) or not ports.spans:
            continue
        if ports.unsure:
            is_own = is_here(host, host.variables.get(_PLACES.get(ports.variable, ""), ""))
            if is_own is False or (is_own is None and not is_rank_zero(host)):
                continue
        yield ports


def _ports(claims: Sequence[PortClaim]) -> list[Span]:
    """Return the ports of all claims, each claim cut to MOST ports."""
    return list(dict.fromkeys(span for claim in claims for span in limit_ports(claim.spans)))


def limit_ports(spans: Sequence[Span]) -> Iterator[Span]:
    """Yield the spans cut to MOST ports in all."""
    remaining = MOST
    for low, high in spans:
        if remaining > 0:
            yield low, min(high, low + remaining - 1)
        remaining -= high - low + 1


BlockedCaller = tuple[Sender, Span, PortVerdict]


class CallerVerdicts:
    """What the firewall does with each caller (peer) on each port."""

    def __init__(self, host: Host, spans: Sequence[Span]) -> None:
        self._host, begun = host, host.clock.monotonic()
        self._unresolved: list[str] = []  # names of peers that do not resolve
        self.rules = read_rules(host)
        self.callers = list(find_senders(host, self._addresses()))
        self.for_peers = bool(self.callers or self._unresolved)
        if not self.for_peers:
            self.callers = find_any_senders(host)
        self.nodes = node_count(host)
        until = begun + host.options.timeout / 2
        firewall = Firewall(self.rules.tables, lambda: host.clock.monotonic() > until)
        unread = self.rules.unread
        self._judged = [
            # Rules that could not be read may drop what the others let through.
            (
                caller,
                span,
                PortVerdict("unknown", unread) if unread and verdict.answer == "open" else verdict,
            )
            for caller in self.callers
            for span, verdict in judge_ports(firewall, caller, spans)
        ]
        self._ports = [port for low, high in spans for port in range(low, high + 1)]

    @property
    def has_callers(self) -> bool:
        """Whether this machine has an address at which another node could connect."""
        return bool(self.callers or self._unresolved)

    @property
    def is_verdict_needed(self) -> bool:
        """Whether a verdict is needed: other nodes were named, and all rules could be read."""
        late = any(verdict.late for _c, _s, verdict in self._judged)
        unread = self.rules.unread or self.rules.unlent or late
        return self.for_peers and self.nodes != 1 and not unread

    def worst(self) -> dict[int, str]:
        """Return the worst verdict of all callers by port. For unknown callers (any address), a verdict
        counts only if IPv4 and IPv6 agree."""
        answers_by_port: dict[int, list[str]] = {port: [] for port in self._ports}
        for _caller, (low, high), verdict in self._judged:
            for port in range(low, high + 1):
                answers_by_port[port].append(verdict.answer)
        if self._unresolved:
            return {port: worst_answer([*answers, "unknown"]) for port, answers in answers_by_port.items()}
        if self.for_peers:
            return {port: worst_answer(answers) for port, answers in answers_by_port.items()}
        return {
            port: answers[0] if len(set(answers)) == 1 else "unknown"
            for port, answers in answers_by_port.items()
        }

    def find_blocked(self, spans: Sequence[Span]) -> list[BlockedCaller]:
        """Return which callers are surely kept out of which of these ports, with the verdict."""
        blocked_ports = {port for port, answer in self.worst().items() if answer == "blocked"}
        return [
            (caller, part, verdict)
            for caller, span, verdict in self._judged
            if verdict.answer == "blocked"
            for part in overlap([span], spans)
            if part[0] in blocked_ports
        ]

    def zone(self, caller: Sender, ports: Span) -> str:
        """Return the firewalld zone whose chains a caller's packet visits; "" if there is none or several."""
        firewall = Firewall(self.rules.tables)
        for _span, _verdict in judge_ports(firewall, caller, [(ports[0], ports[0])]):
            zones = {zone_of(name) for name in firewall.visited_chains} - {""}
        return zones.pop() if len(zones) == 1 else ""

    def doubt(self) -> str:
        """Return why the verdict for some ports is unknown; "" if all are known."""
        undecided = runs(port for port, answer in self.worst().items() if answer == "unknown")
        if not undecided:
            return ""
        if self._unresolved:
            why = _("the address of {peers} is unknown", peers=abbreviate(self._unresolved))
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
            ports=abbreviate((spell([span]) for span in undecided), 8),
            why=why,
        )

    def _addresses(self) -> Iterator[str]:
        """Yield the addresses of the peers. A name may have several, of which the first is used."""
        for peer in self._host.options.peers:
            if _is_address(peer):
                yield peer
                continue
            addresses = self._host.names.resolve(peer).addresses
            if not addresses:
                self._unresolved.append(peer)
            yield from addresses[:1]


def _is_address(text: str) -> bool:
    """Whether it is an IP address, in brackets or with a zone."""
    # `ipaddress` takes some milliseconds to import, and most runs do not come here.
    import ipaddress

    try:
        ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True


def _judge_claim(host: Host, claim: PortClaim, verdicts: CallerVerdicts) -> Iterator[Finding]:
    """Yield the finding about the ports of one claim, if any is blocked."""
    blocked = verdicts.find_blocked(claim.spans)
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
        severity=_blocked_severity(host, claim, verdicts, covers_all=subtract(claim.spans, ports) == ()),
        evidence=places[:8],
        action=Action.CONFIG,
        fix=open_ports_fix(
            host,
            list(dict.fromkeys(caller.name for caller, _s, _v in blocked)),
            ports,
            _blockers(blocked),
            lambda: _zones(verdicts, blocked),
        ),
    )


def _zones(verdicts: CallerVerdicts, blocked: Sequence[BlockedCaller]) -> dict[str, str]:
    """Return the zone of each sender, "" if it is not clear. Computed only if a fix uses firewall-cmd."""
    zones: dict[str, set[str]] = {}
    for caller, span in {caller.packet: (caller, span) for caller, span, _v in blocked}.values():
        zones.setdefault(caller.name, set()).add(verdicts.zone(caller, span))
    return {name: names.pop() if len(names) == 1 else "" for name, names in zones.items()}


def _blockers(blocked: Sequence[BlockedCaller]) -> list[Blocker]:
    """Return the chains that block, each once, with whether they drop packets of the peers or our replies."""
    return list(
        dict.fromkeys(
            Blocker(place.partition(":")[0], place, leaving)
            for _c, _s, verdict in blocked
            for leaving, places in ((False, verdict.entering), (True, verdict.leaving))
            for place in places
        )
    )


def _blocked_severity(
    host: Host, claim: PortClaim, verdicts: CallerVerdicts, covers_all: bool
) -> Optional[Severity]:
    """Return the severity; None means the declared one, an error. `covers_all`: all ports of the claim are
    blocked, which matters because HCCL takes the first free one of a range."""
    has_several_nodes = verdicts.for_peers or (verdicts.nodes or 0) > 1
    is_for_others = not verdicts.for_peers and may_be_for_other_machines(host)
    if verdicts.nodes == 1 or is_for_others or (not has_several_nodes and not claim.variable):
        return Severity.INFO
    if not has_several_nodes:
        return Severity.WARNING
    if not claim.hccl:
        return None
    # The other ranks connect to HCCL's root, which is rank 0 and runs on the master's machine.
    master = host.variables.get("MASTER_ADDR", "")
    is_root_blocked = covers_all and (is_rank_zero(host) or (bool(master) and is_here(host, master) is True))
    return None if is_root_blocked else Severity.WARNING
