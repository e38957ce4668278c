"""The lines that let other nodes in, in the words of the tool that keeps the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Callable, Optional

from npudoctor import Command, Fix, Host, Risk, _
from npudoctor.frozen import dataclass
from npudoctor.host.ports import Span

MOST = 8  # lines of a fix

Lines = tuple[tuple[str, ...], ...]
Pair = tuple[Lines, Lines]  # what is done, and what takes it back


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
        pair
        for peer in peers
        for span in ports
        for side in sides
        for pair in _lines(host, side, peer.strip("[]").partition("%")[0], span, known.get(peer, ""))
    ]
    pairs = list(dict.fromkeys(made))
    if not pairs or len(pairs) > MOST:
        return None
    steps = tuple(Command(argv) for do, _undo in pairs for argv in do)
    undo = tuple(line for _do, back in pairs for argv in back for line in Command(argv).lines())
    return Fix(_title([argv for do, _undo in pairs for argv in do]), steps, undo, Risk.MANUAL)


def _title(lines: Sequence[Sequence[str]]) -> str:
    """What the lines do, and what they cannot say themselves."""
    title = _("Let the other nodes in on these ports")
    if any(argv[0] == "firewall-cmd" and not any("--zone=" in word for word in argv) for argv in lines):
        title = _(
            "{title}; in the default zone: add --zone= where firewall-cmd --get-active-zones names another "
            "one for the interface by which they come"
        ).format(title=title)
    chains = dict.fromkeys(" ".join(argv[3:6]) for argv in lines if argv[0] == "nft")
    for chain in list(chains)[:1]:
        place = chain if len(chains) == 1 else "FAMILY TABLE CHAIN"
        title = _(
            "{title}; to take a rule back: nft -a list chain {place} shows its handle for nft delete rule "
            "{place} handle HANDLE"
        ).format(title=title, place=place)
    return title


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


def _lines(host: Host, side: Side, sender: str, span: Span, zone: str) -> Iterator[Pair]:
    if _is_firewalld(host, side):
        if not side.leaving:  # its zones are about what comes in
            yield _firewalld(sender, span, zone)
    elif "ufw" in side.place or _ufw_is_on(host, side):
        yield _ufw(side, sender, span)
    else:
        yield from _chain(side, sender, span)


def _firewalld(sender: str, span: Span, zone: str) -> Pair:
    """Once for now, once to stay."""
    port = _span(span, "-")
    if not sender:
        what, words = "port", f"{port}/tcp"
    else:
        family = "ipv6" if ":" in sender else "ipv4"
        what = "rich-rule"
        words = f'rule family="{family}" source address="{sender}" port port="{port}" protocol="tcp" accept'
    where = (f"--zone={zone}",) if zone else ()
    both = (where, ("--permanent", *where))
    return (
        tuple(("firewall-cmd", *keep, f"--add-{what}={words}") for keep in both),
        tuple(("firewall-cmd", *keep, f"--remove-{what}={words}") for keep in both),
    )


def _ufw_is_on(host: Host, side: Side) -> bool:
    """Its default drop is the policy of a chain with an ordinary name."""
    from npudoctor.host import CannotTell

    try:
        enabled = host.files.text("/etc/ufw/ufw.conf") or ""
    except CannotTell:
        return False
    policy = "OUTPUT: policy" if side.leaving else "INPUT: policy"
    return "ENABLED=yes" in enabled and policy in side.place


def _ufw(side: Side, sender: str, span: Span) -> Pair:
    port, peer = ("port", _span(span, ":")), sender or "any"
    rule: tuple[str, ...]
    if side.leaving:
        rule = ("allow", "out", "proto", "tcp", "from", "any", *port, "to", peer)
    else:
        rule = ("allow", "proto", "tcp", "from", peer, "to", "any", *port)
    return (("ufw", *rule),), (("ufw", "delete", *rule),)


def _chain(side: Side, sender: str, span: Span) -> Iterator[Pair]:
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
    field, port = ("daddr", "sport") if side.leaving else ("saddr", "dport")
    match = ("ip6" if ":" in sender else "ip", field, sender) if sender else ()
    rule = ("rule", family, table, chain, *match, "tcp", port, _span(span, "-"), "accept")
    yield (("nft", "insert", *rule),), ()


def _iptables(place: Sequence[str], side: Side, sender: str, span: Span) -> Pair:
    tool, _t, table, chain = place
    peer, port = ("-d", "--sport") if side.leaving else ("-s", "--dport")
    match = (peer, sender) if sender else ()
    rule = (chain, *match, "-p", "tcp", port, _span(span, ":"), "-j", "ACCEPT")
    first = (tool, "-t", table)
    return ((*first, "-I", *rule),), ((*first, "-D", *rule),)


def _span(span: Span, between: str) -> str:
    return between.join(str(end) for end in dict.fromkeys(span))
