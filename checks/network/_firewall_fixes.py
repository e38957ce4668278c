"""The lines that let other nodes in, in the words of the tool that keeps the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Callable, Optional, Union

from npudoctor import Command, Fix, Host, InsertRule, Risk, _
from npudoctor.core.frozen import dataclass
from npudoctor.core.ports import Span
from npudoctor.host import CannotTell

MOST = 32  # lines of a fix

FixLine = Union[Command, InsertRule]


@dataclass(frozen=True)
class Blocker:
    """A chain that blocks. `place`: where it is, in words. `drops_replies`: it drops this machine's answers,
    not the packets of the peers."""

    chain: str
    place: str
    drops_replies: bool = False


def open_ports_fix(
    host: Host,
    peers: Sequence[str],
    ports: Sequence[Span],
    blockers: Sequence[Blocker],
    zones: Callable[[], Mapping[str, str]],
) -> Optional[Fix]:
    """Return the fix that opens the ports with the tool that manages the rules: firewalld, ufw, nft or
    iptables. None if no line is known or there would be more than MOST. `peers` are as the user wrote them,
    "" for everybody. `zones` is called only for firewalld."""
    zone_by_peer = zones() if any(_is_firewalld(host, blocker) for blocker in blockers) else {}
    commands = [
        line
        for peer in peers
        for span in ports
        for blocker in blockers
        for line in _commands(
            host, blocker, peer.strip("[]").partition("%")[0], span, zone_by_peer.get(peer, "")
        )
    ]
    steps = tuple(dict.fromkeys(commands))
    if not steps or len(steps) > MOST:
        return None
    # Without --zone firewall-cmd changes the default zone, which may not be the one that the peers come
    # through.
    is_zone_unknown = any(
        step.argv[0] == "firewall-cmd" and not any("--zone=" in word for word in step.argv) for step in steps
    )
    title = _("Open these ports to everyone; with --peers, only to the other nodes")
    if any(peers):
        title = _("Open these ports to the other nodes")
    if is_zone_unknown:
        title = _(
            "{title}; this uses the default zone: add --zone= if firewall-cmd --get-active-zones lists "
            "the incoming interface in another zone",
            title=title,
        )
    return Fix(title, steps, risk=Risk.MANUAL if is_zone_unknown else Risk.CAUTION)


def zone_of(chain: str) -> str:
    """Return firewalld's zone of a chain; "" for all other chains."""
    name = chain[len("filter_") :] if chain.startswith("filter_") else chain
    # firewalld calls its chains IN_<zone>, IN_<zone>_allow and so on, in nftables with filter_ before;
    # IN_policy_... are those of policies, not of zones.
    if not name.startswith("IN_") or name.startswith("IN_policy_"):
        return ""
    zone, _bar, part = name[len("IN_") :].rpartition("_")
    return zone if zone and part in ("pre", "log", "deny", "allow", "post") else name[len("IN_") :]


def _is_firewalld(host: Host, blocker: Blocker) -> bool:
    is_in_place = "firewalld" in blocker.place or " IN_" in blocker.place
    return is_in_place and host.commands.find("firewall-cmd") is not None


def _commands(host: Host, blocker: Blocker, sender: str, span: Span, zone: str) -> Iterator[FixLine]:
    if _is_firewalld(host, blocker):
        if not blocker.drops_replies:  # its zones are about what comes in
            # First permanently, then for now: the runtime rule ends the finding, so if a run is killed in
            # between, the finding is still there and the next run finishes the work.
            port = _spell_span(span, "-")
            if not sender:
                rule_kind, words = "port", f"{port}/tcp"
            else:
                family = "ipv6" if ":" in sender else "ipv4"
                rule_kind = "rich-rule"
                source = f'rule family="{family}" source address="{sender}"'
                words = f'{source} port port="{port}" protocol="tcp" accept'
            zone_option = (f"--zone={zone}",) if zone else ()
            for lifetime in (("--permanent", *zone_option), zone_option):
                add, remove, query = (
                    ("firewall-cmd", *lifetime, f"--{verb}-{rule_kind}={words}")
                    for verb in ("add", "remove", "query")
                )
                yield Command(add, remove, unless=query)
    elif "ufw" in blocker.place or _is_ufw_on(host, blocker):
        # ufw appends a new rule: if a rule of the user drops the packet first, the new one must be prepended.
        number, peer = ("port", _spell_span(span, ":")), sender or "any"
        rule: tuple[str, ...]
        if blocker.drops_replies:
            rule = ("allow", "out", "proto", "tcp", "from", "any", *number, "to", peer)
        else:
            rule = ("allow", "proto", "tcp", "from", peer, "to", "any", *number)
        first = ("prepend",) if "-user-" in blocker.chain else ()
        yield Command(("ufw", *first, *rule), ("ufw", "delete", *rule), skipped="Skipping")
    else:
        yield from _chain_rule(blocker, sender, span)


def _is_ufw_on(host: Host, blocker: Blocker) -> bool:
    """Whether ufw is enabled and its default policy is what drops: that is the policy of a built-in chain."""

    try:
        settings = host.files.text("/etc/ufw/ufw.conf") or ""
    except CannotTell:
        # Not readable, so ufw is not known to be on, and the rule is added to the chain itself.
        return False
    # ufw's default is the policy of the built-in chain, which no rule of ufw's own chains names.
    policy = "OUTPUT: policy" if blocker.drops_replies else "INPUT: policy"
    return "ENABLED=yes" in settings and policy in blocker.place


def _chain_rule(blocker: Blocker, sender: str, span: Span) -> Iterator[FixLine]:
    """Yield the rule to insert at the top of the chain that drops, by iptables if the chain is one of its
    own."""
    words = blocker.chain.split()
    if len(words) != 4:
        return
    if words[0] != "nft":
        yield _iptables(words, blocker, sender, span)
        return
    _nft, family, table, chain = words
    # iptables-nft keeps its chains, which are upper-case (INPUT), in nftables tables; what nft adds there,
    # the next iptables-restore may drop.
    if family in ("ip", "ip6") and chain.isupper():
        tool = "ip6tables" if family == "ip6" else "iptables"
        yield _iptables([tool, "-t", table, chain], blocker, sender, span)
        return
    # The comment is the same for the same rule in the same chain, and finds it again.
    place = (family, table, chain)
    # `hashlib` takes some milliseconds to import, and most runs do not come here.
    import hashlib

    field, port = ("daddr", "sport") if blocker.drops_replies else ("saddr", "dport")
    match = ("ip6" if ":" in sender else "ip", field, sender) if sender else ()
    rule = (*match, "tcp", port, _spell_span(span, "-"), "accept")
    digest = hashlib.sha256("\0".join((*place, *rule)).encode("utf-8", "surrogateescape"))
    yield InsertRule(place, rule, f"npudoctor-{digest.hexdigest()[:8]}")


def _iptables(place: Sequence[str], blocker: Blocker, sender: str, span: Span) -> Command:
    tool, _t, table, chain = place
    peer, port = ("-d", "--sport") if blocker.drops_replies else ("-s", "--dport")
    match = (peer, sender) if sender else ()
    rule = (chain, *match, "-p", "tcp", port, _spell_span(span, ":"), "-j", "ACCEPT")
    # -w: not refused while somebody else, such as kube-proxy, is writing.
    insert, delete, query = ((tool, "-w", "-t", table, verb, *rule) for verb in ("-I", "-D", "-C"))
    return Command(insert, delete, unless=query)


def _spell_span(span: Span, between: str) -> str:
    return between.join(str(end) for end in dict.fromkeys(span))
