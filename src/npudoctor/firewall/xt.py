"""Parses what iptables-save prints into tables; a match that is not known counts as undecidable."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from npudoctor.core.frozen import replace
from npudoctor.firewall.nft import untrack
from npudoctor.firewall.packet import WORD, Packet, list_values, spoil, to_ranges
from npudoctor.firewall.rules import (
    ACCEPT,
    DROP,
    RETURN,
    UNKNOWN,
    BaseHook,
    Chain,
    Condition,
    PacketChange,
    Rule,
    RuleTable,
    Step,
    decide,
)
from npudoctor.firewall.xt_match import KNOWN_MODULES, option_test, unknown_match

# Priorities of the tables: NF_IP_PRI_RAW and so on of linux/netfilter_ipv4.h.
_PRIORITIES = {"raw": -300, "mangle": -150, "filter": 0, "security": 50}
_HOOKS = {
    "PREROUTING": "prerouting", "INPUT": "input", "FORWARD": "forward", "OUTPUT": "output",
    "POSTROUTING": "postrouting",
}  # fmt: skip
# The table nat has two: NF_IP_PRI_NAT_DST before routing, NF_IP_PRI_NAT_SRC after it.
_NAT_PRIORITIES = {"PREROUTING": -100, "OUTPUT": -100, "INPUT": 100, "POSTROUTING": 100}
# Targets that neither decide about a packet nor change its addresses, ports or marks.
_HARMLESS = {
    "LOG", "NFLOG", "ULOG", "AUDIT", "TRACE", "TCPMSS", "CHECKSUM", "CLASSIFY", "DSCP", "TOS", "TTL", "HL",
    "SECMARK", "CONNSECMARK", "ECN", "TCPOPTSTRIP", "IDLETIMER", "LED", "RATEEST", "TEE",
}  # fmt: skip
_VERDICTS = {"ACCEPT": ACCEPT, "DROP": DROP, "REJECT": DROP, "RETURN": RETURN}
_PORTS = {"--dport": "d", "--dports": "d", "--sport": "s", "--sports": "s", "--ports": "ds"}
_TEXT_OPTIONS = {"--comment", "--string", "--hex-string"}


def parse_xt(text: str, ipv6: bool, tool: str = "iptables") -> list[RuleTable]:
    """The tables of one family; ValueError, KeyError or IndexError for text that is not of iptables-save."""
    tables: list[RuleTable] = []
    chains: dict[str, Chain] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("*"):
            name, chains = line[1:].strip(), {}
        elif line.startswith(":"):
            chain, policy, *_counters = line[1:].split()  # a chain that a user made has the policy "-"
            base = None
            if chain in _HOOKS and policy != "-":
                kind = "nat" if name == "nat" else "filter"
                priority = _NAT_PRIORITIES.get(chain, 0) if kind == "nat" else _PRIORITIES.get(name, 0)
                base = BaseHook(kind, _HOOKS[chain], priority, policy != "ACCEPT")
            chains[chain] = Chain(chain, (), base)
        elif line.startswith(("-A ", "[")):  # with -c counters stand before the rule: "[12:3456] -A INPUT"
            chain, rule = _parse_rule(line[line.index("-A ") :])
            chains[chain] = replace(chains[chain], rules=(*chains[chain].rules, rule))
        elif line.startswith("COMMIT"):
            tables.append(RuleTable("ip6" if ipv6 else "ip", name, chains, tool=tool))
    return tables


def _parse_rule(line: str) -> tuple[str, Rule]:
    """The name of the chain and the rule of a line `-A CHAIN ...`."""
    words = shlex.split(line)
    steps: list[Step] = []
    position, module, is_negated = 2, "", False
    while position < len(words):
        word = words[position]
        if word == "!":
            is_negated = True
            position += 1
            continue
        if word in ("-j", "-g"):
            steps += _parse_target(word, words[position + 1], words[position + 2 :])
            break
        # The values of an option end at the next one; a text is one word, even one that begins with "-".
        is_text = word in _TEXT_OPTIONS
        end = position + 1 + is_text
        while not is_text and end < len(words) and words[end] != "!" and not words[end].startswith("-"):
            end += 1
        values = words[position + 1 : end]
        position += 1 + len(values)
        if word == "-m":
            module = values[0]
            steps += [] if module in KNOWN_MODULES else [Condition(unknown_match(module))]
        elif not module or module in KNOWN_MODULES:
            steps.append(Condition(option_test(module, word, values, is_negated), _PORTS.get(word, "")))
        is_negated = False
    return words[1], Rule(tuple(steps), line)


def _parse_target(option: str, target: str, options: Sequence[str]) -> list[Step]:
    """The steps of a rule's target."""
    if option == "-g":
        return [decide(("goto", target))]
    if target in _VERDICTS:
        return [decide(_VERDICTS[target])]
    if target in _HARMLESS:
        return []
    if target in ("MARK", "CONNMARK"):
        return [_parse_mark_change(target, options)]
    if target == "NOTRACK" or (target == "CT" and "--notrack" in options):
        return [PacketChange(untrack)]
    # CT without --notrack only sets a helper, a zone or events.
    if target == "CT":
        return []
    if target.isupper() and target in _UNKNOWN_EFFECT:
        # They rewrite addresses, hand the packet to a program or do what no listing says.
        return [PacketChange(spoil), decide(UNKNOWN)]
    return [decide(("jump", target))]


# Targets of the kernel and of modules such as xtables-addons; other names are chains of the user.
_UNKNOWN_EFFECT = {
    "DNAT", "SNAT", "MASQUERADE", "REDIRECT", "NETMAP", "TPROXY", "QUEUE", "NFQUEUE", "SET", "SYNPROXY",
    "CLUSTERIP", "SNPT", "DNPT", "HMARK", "RAWDNAT", "RAWSNAT", "BALANCE", "MIRROR", "SAME", "TARPIT",
    "DELUDE", "CHAOS", "STEAL", "ECHO", "RTPENGINE",
}  # fmt: skip


def _parse_mark_change(target: str, options: Sequence[str]) -> PacketChange:
    """Parse `--set-xmark value/mask`: the bits of the mask are cleared, then value is XORed in.

    iptables-save prints every way of setting a mark in this form (iptables-extensions(8), MARK).
    """
    field = "mark" if target == "MARK" else "connection_mark"
    if len(options) == 2 and options[0] == "--set-xmark":
        value, _slash, mask = options[1].partition("/")
        set_to, bits = int(value, 0), int(mask or "0xffffffff", 0)

        def set_mark(packet: Packet) -> Packet:
            old_marks = [0] if bits == 0xFFFFFFFF else list_values(getattr(packet, field))
            new_marks = (
                WORD if old_marks is None else to_ranges({mark & ~bits ^ set_to for mark in old_marks})
            )
            return replace(packet, **{field: new_marks})  # type: ignore[arg-type]

        return PacketChange(set_mark)
    return PacketChange(lambda packet: replace(packet, mark=WORD, connection_mark=WORD))
