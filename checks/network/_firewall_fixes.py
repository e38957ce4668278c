"""The lines that let other nodes in, in the words of the tool that keeps the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from npudoctor import Command, Fix, Host, Risk, _
from npudoctor.host.ports import Span

MOST = 8  # lines of a fix


def way_in(host: Host, peers: Sequence[str], ports: Sequence[Span], places: Sequence[str]) -> Optional[Fix]:
    """For firewalld, ufw, or the chain itself that drops; None where we have no line for it."""
    senders = [peer.strip("[]").partition("%")[0] for peer in peers] or [""]
    if any("firewalld" in place or " IN_" in place for place in places) and host.commands.find(
        "firewall-cmd"
    ):
        pairs = [_firewalld(sender, span) for sender in senders for span in ports]
    elif any("ufw" in place for place in places) or _ufw_is_on(host, places):
        pairs = [_ufw(sender, span) for sender in senders for span in ports]
    else:
        pairs = [
            pair
            for place in dict.fromkeys(place.partition(":")[0] for place in places)
            for sender in senders
            for span in ports
            for pair in _chain(place.split(), sender, span)
        ]
    if not pairs or len(pairs) > MOST:
        return None
    steps = tuple(Command(argv) for do, _undo in pairs for argv in do)
    undo = tuple(line for _do, back in pairs for argv in back for line in Command(argv).lines())
    return Fix(_("Let the other nodes in on these ports"), steps, undo, Risk.MANUAL)


Lines = tuple[tuple[str, ...], ...]


def _firewalld(sender: str, span: Span) -> tuple[Lines, Lines]:
    """Once for now, once to stay."""
    port = "-".join(str(end) for end in dict.fromkeys(span))
    if not sender:
        what, words = "port", f"{port}/tcp"
    else:
        family = "ipv6" if ":" in sender else "ipv4"
        what = "rich-rule"
        words = f'rule family="{family}" source address="{sender}" port port="{port}" protocol="tcp" accept'
    both = ((), ("--permanent",))
    return (
        tuple(("firewall-cmd", *keep, f"--add-{what}={words}") for keep in both),
        tuple(("firewall-cmd", *keep, f"--remove-{what}={words}") for keep in both),
    )


def _ufw_is_on(host: Host, places: Sequence[str]) -> bool:
    """Its default drop is the policy of a chain with an ordinary name."""
    from npudoctor.host import CannotTell

    try:
        enabled = host.files.text("/etc/ufw/ufw.conf") or ""
    except CannotTell:
        return False
    return "ENABLED=yes" in enabled and any("INPUT: policy" in place for place in places)


def _ufw(sender: str, span: Span) -> tuple[Lines, Lines]:
    port = ":".join(str(end) for end in dict.fromkeys(span))
    rule = ("allow", "proto", "tcp", "from", sender or "any", "to", "any", "port", port)
    return (("ufw", *rule),), (("ufw", "delete", *rule),)


def _chain(place: Sequence[str], sender: str, span: Span) -> list[tuple[Lines, Lines]]:
    """A rule in front of the chain that drops: for iptables where it is one of its chains."""
    if place[:1] == ["nft"] and len(place) == 4:
        family, table, chain = place[1:]
        if family in ("ip", "ip6") and chain.isupper():
            tool = "ip6tables" if family == "ip6" else "iptables"
            return _iptables([tool, "-t", table, chain], sender, span)
        kind = "ip6" if ":" in sender else "ip"
        match = (kind, "saddr", sender) if sender else ()
        port = "-".join(str(end) for end in dict.fromkeys(span))
        rule = ("rule", family, table, chain, *match, "tcp", "dport", port, "accept")
        return [((("nft", "insert", *rule),), ())]
    return _iptables(place, sender, span) if len(place) == 4 else []


def _iptables(place: Sequence[str], sender: str, span: Span) -> list[tuple[Lines, Lines]]:
    tool, _t, table, chain = place
    match = ("-s", sender) if sender else ()
    port = ":".join(str(end) for end in dict.fromkeys(span))
    rule = (chain, *match, "-p", "tcp", "--dport", port, "-j", "ACCEPT")
    first = (tool, "-t", table)
    return [(((*first, "-I", *rule),), ((*first, "-D", *rule),))]
