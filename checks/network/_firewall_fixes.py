"""The lines that let other nodes in, in the words of the tool that keeps the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Callable, Optional, Union

from npudoctor import Command, Fix, Host, InsertRule, Risk, _
from npudoctor.core.frozen import dataclass
from npudoctor.core.ports import Span
from npudoctor.host import CannotTell

MOST = 32  # lines of a fix

Line = Union[Command, InsertRule]


@dataclass(frozen=True)
class Side:
    """What drops: a chain, the whole place in words, and whether it drops our answers, not their packets."""

    chain: str
    place: str
    leaving: bool = False


def way_in(
    host: Host,
    peers: Sequence[str],
    ports: Sequence[Span],
    sides: Sequence[Side],
    zones: Callable[[], Mapping[str, str]],
) -> Optional[Fix]:
    """For firewalld, ufw, or the chain itself that drops; None where we have no line for it. `peers` are
    as the user wrote them, "" for anybody."""
    known = zones() if any(_is_firewalld(host, side) for side in sides) else {}
    made = [
        line
        for peer in peers
        for span in ports
        for side in sides
        for line in _lines(host, side, peer.strip("[]").partition("%")[0], span, known.get(peer, ""))
    ]
    steps = tuple(dict.fromkeys(made))
    if not steps or len(steps) > MOST:
        return None
    # One that changes a zone that may be another than theirs: a person must look.
    zoneless = any(
        step.argv[0] == "firewall-cmd" and not any("--zone=" in word for word in step.argv) for step in steps
    )
    title = _("Open these ports to everyone; with --peers, only to the other nodes")
    if any(peers):
        title = _("Open these ports to the other nodes")
    if zoneless:
        title = _(
            "{title}; this uses the default zone: add --zone= if firewall-cmd --get-active-zones lists "
            "the incoming interface in another zone",
            title=title,
        )
    return Fix(title, steps, risk=Risk.MANUAL if zoneless else Risk.CAUTION)


def zone_of(chain: str) -> str:
    """The zone of firewalld for which a chain is; empty for others."""
    name = chain[len("filter_") :] if chain.startswith("filter_") else chain
    if not name.startswith("IN_") or name.startswith("IN_policy_"):
        return ""
    zone, _bar, part = name[len("IN_") :].rpartition("_")
    return zone if zone and part in ("pre", "log", "deny", "allow", "post") else name[len("IN_") :]


def _is_firewalld(host: Host, side: Side) -> bool:
    ours = "firewalld" in side.place or " IN_" in side.place
    return ours and host.commands.find("firewall-cmd") is not None


def _lines(host: Host, side: Side, sender: str, span: Span, zone: str) -> Iterator[Line]:
    if _is_firewalld(host, side):
        if not side.leaving:  # its zones are about what comes in
            # Once to stay, once for now: what ends the finding comes last, so that a run which was killed
            # in between is finished by the next one.
            port = _span(span, "-")
            if not sender:
                what, words = "port", f"{port}/tcp"
            else:
                family = "ipv6" if ":" in sender else "ipv4"
                what = "rich-rule"
                source = f'rule family="{family}" source address="{sender}"'
                words = f'{source} port port="{port}" protocol="tcp" accept'
            where = (f"--zone={zone}",) if zone else ()
            for keep in (("--permanent", *where), where):
                add, remove, query = (
                    ("firewall-cmd", *keep, f"--{verb}-{what}={words}") for verb in ("add", "remove", "query")
                )
                yield Command(add, remove, unless=query)
    elif "ufw" in side.place or _ufw_is_on(host, side):
        # In front of the user's own rules where one of these drops, as ufw puts others behind them.
        number, peer = ("port", _span(span, ":")), sender or "any"
        rule: tuple[str, ...]
        if side.leaving:
            rule = ("allow", "out", "proto", "tcp", "from", "any", *number, "to", peer)
        else:
            rule = ("allow", "proto", "tcp", "from", peer, "to", "any", *number)
        first = ("prepend",) if "-user-" in side.chain else ()
        yield Command(("ufw", *first, *rule), ("ufw", "delete", *rule), skipped="Skipping")
    else:
        yield from _chain(side, sender, span)


def _ufw_is_on(host: Host, side: Side) -> bool:
    """Its default drop is the policy of a chain with an ordinary name."""

    try:
        enabled = host.files.text("/etc/ufw/ufw.conf") or ""
    except CannotTell:
        return False
    policy = "OUTPUT: policy" if side.leaving else "INPUT: policy"
    return "ENABLED=yes" in enabled and policy in side.place


def _chain(side: Side, sender: str, span: Span) -> Iterator[Line]:
    """A rule in front of the chain that drops: for iptables where it is one of its chains."""
    words = side.chain.split()
    if len(words) != 4:
        return
    if words[0] != "nft":
        yield _iptables(words, side, sender, span)
        return
    _nft, family, table, chain = words
    if family in ("ip", "ip6") and chain.isupper():
        tool = "ip6tables" if family == "ip6" else "iptables"
        yield _iptables([tool, "-t", table, chain], side, sender, span)
        return
    # The comment is the same for the same rule in the same chain, and finds it again.
    place = (family, table, chain)
    import hashlib

    field, port = ("daddr", "sport") if side.leaving else ("saddr", "dport")
    match = ("ip6" if ":" in sender else "ip", field, sender) if sender else ()
    rule = (*match, "tcp", port, _span(span, "-"), "accept")
    digest = hashlib.sha256("\0".join((*place, *rule)).encode("utf-8", "surrogateescape"))
    yield InsertRule(place, rule, f"npudoctor-{digest.hexdigest()[:8]}")


def _iptables(place: Sequence[str], side: Side, sender: str, span: Span) -> Command:
    tool, _t, table, chain = place
    peer, port = ("-d", "--sport") if side.leaving else ("-s", "--dport")
    match = (peer, sender) if sender else ()
    rule = (chain, *match, "-p", "tcp", port, _span(span, ":"), "-j", "ACCEPT")
    # -w: not refused while somebody else, such as kube-proxy, is writing.
    insert, delete, look = ((tool, "-w", "-t", table, verb, *rule) for verb in ("-I", "-D", "-C"))
    return Command(insert, delete, unless=look)


def _span(span: Span, between: str) -> str:
    return between.join(str(end) for end in dict.fromkeys(span))
