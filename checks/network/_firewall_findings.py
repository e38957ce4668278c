"""The verdicts of the check firewall and their words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from npudoctor import Action, Finding, Host, Severity, _, ngettext
from npudoctor.checks.network._firewall_fixes import Side, way_in, zone_of
from npudoctor.core.ports import Span, overlap, runs, spell, without
from npudoctor.facts.job.expected_accelerator import meant_for_other_machines
from npudoctor.facts.job.nodes import is_here, is_rank_zero, node_count
from npudoctor.facts.job.ports import Claim
from npudoctor.facts.leftovers.port_holders import abbreviate
from npudoctor.firewall.hooks import Firewall, PortVerdict
from npudoctor.firewall.inbound import Sender, any_senders, judge, senders, worst
from npudoctor.firewall.read import read_rules

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
        self._judged = [
            (caller, span, self._known(verdict))
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
        found: dict[int, list[str]] = {port: [] for port in self._ports}
        for _caller, (low, high), verdict in self._judged:
            for port in range(low, high + 1):
                found[port].append(verdict.answer)
        if self._lost:
            return {port: worst([*answers, "unknown"]) for port, answers in found.items()}
        if self.for_peers:
            return {port: worst(answers) for port, answers in found.items()}
        return {port: answers[0] if len(set(answers)) == 1 else "unknown" for port, answers in found.items()}

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
            found = {zone_of(name) for name in firewall.visited} - {""}
        return found.pop() if len(found) == 1 else ""

    def doubt(self) -> str:
        """Why a verdict is missing; empty where none is."""
        open_ports = runs(port for port, answer in self.worst().items() if answer == "unknown")
        if not open_ports:
            return ""
        if self._lost:
            why = _("nothing says which address {peers} has").format(peers=abbreviate(self._lost))
        elif self.rules.unread:
            why = "; ".join(self.rules.unread)
        elif any(verdict.late for _c, _s, verdict in self._judged):
            why = _("there are too many rules for the time of the check")
        elif not self.for_peers:
            why = _("it depends on who connects: name the other nodes with --peers")
        else:
            places = (place for _c, _s, verdict in self._judged for place in verdict.places)
            why = _("it depends on what cannot be judged: {rules}").format(rules=abbreviate(places, 3))
            why = "; ".join([why, *self.rules.unlent])
        text = _("whether the firewall lets others in on TCP {ports} is not known: {why}")
        return text.format(ports=abbreviate((spell([span]) for span in open_ports), 8), why=why)

    def _known(self, verdict: PortVerdict) -> PortVerdict:
        """Rules that could not be read may drop what the others let through."""
        if verdict.answer == "open" and self.rules.unread:
            return PortVerdict("unknown", self.rules.unread)
        return verdict

    def _addresses(self) -> Iterator[str]:
        """The addresses of the peers; a name may have several, of which one is used."""
        for peer in self._host.options.peers:
            if is_address(peer):
                yield peer
                continue
            found = self._host.names.meaning(peer).addresses
            if not found:
                self._lost.append(peer)
            yield from found[:1]


def is_address(text: str) -> bool:
    """Whether it is an IP address, in brackets or with a zone."""
    import ipaddress

    try:
        ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True


def blocked(host: Host, claim: Claim, answers: Answers) -> Iterator[Finding]:
    """The finding about the ports of one claim."""
    found = answers.blocked(claim.spans)
    if not found:
        return
    ports = runs(port for _c, (low, high), _v in found for port in range(low, high + 1))
    peers = list(dict.fromkeys(caller.name for caller, _s, _v in found if caller.name))
    places = tuple(dict.fromkeys(place for _c, _s, verdict in found for place in verdict.places))
    text = ngettext(
        "The firewall keeps {who} out of TCP port {ports} ({label}): {place}",
        "The firewall keeps {who} out of TCP ports {ports} ({label}): {place}",
        sum(high - low + 1 for low, high in ports),
    )
    yield Finding(
        "firewall.blocked",
        text.format(
            who=abbreviate(peers) if peers else _("every other node"),
            ports=abbreviate((spell([span]) for span in ports), 8),
            label=claim.label,
            place=abbreviate(places, 3),
        ),
        severity=_weight(host, claim, answers, whole=without(claim.spans, ports) == ()),
        evidence=places[:8],
        action=Action.CONFIG,
        fix=way_in(host, _senders(found), ports, _sides(found), lambda: _zones(answers, found)),
    )


def _senders(found: Sequence[Blocked]) -> list[str]:
    return list(dict.fromkeys(caller.name for caller, _s, _v in found))


def _zones(answers: Answers, found: Sequence[Blocked]) -> dict[str, str]:
    """The zone of each sender; of both families for anybody."""
    zones: dict[str, set[str]] = {}
    for caller, span in {caller.packet: (caller, span) for caller, span, _v in found}.values():
        zones.setdefault(caller.name, set()).add(answers.zone(caller, span))
    return {name: these.pop() if len(these) == 1 else "" for name, these in zones.items()}


def _sides(found: Sequence[Blocked]) -> list[Side]:
    """The places that drop, with the side on which they do."""
    return list(
        dict.fromkeys(
            Side(place.partition(":")[0], place, leaving)
            for _c, _s, verdict in found
            for leaving, places in ((False, verdict.entering), (True, verdict.leaving))
            for place in places
        )
    )


def _weight(host: Host, claim: Claim, answers: Answers, whole: bool) -> Optional[Severity]:
    """None is the declared one: an error. HCCL takes the first free port of several, at the root."""
    several = answers.for_peers or (answers.nodes or 0) > 1
    elsewhere = not answers.for_peers and meant_for_other_machines(host)
    if answers.nodes == 1 or elsewhere or (not several and not claim.variable):
        return Severity.INFO
    if not several:
        return Severity.WARNING
    return None if not claim.hccl or (whole and _is_root(host)) else Severity.WARNING


def _is_root(host: Host) -> bool:
    """Whether HCCL's ranks meet here: at the first rank, beside the master."""
    master = host.variables.get("MASTER_ADDR", "")
    return is_rank_zero(host) or (bool(master) and is_here(host, master) is True)
