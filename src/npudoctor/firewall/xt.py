"""Reads what iptables-save prints into tables; a match that we do not know is one that nobody can judge."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from npudoctor.core.frozen import replace
from npudoctor.firewall.nft import untrack
from npudoctor.firewall.packet import WORD, Packet, few, single, spoil
from npudoctor.firewall.rules import (
    ACCEPT,
    DROP,
    RETURN,
    UNKNOWN,
    Base,
    Chain,
    Change,
    Match,
    Rule,
    Step,
    Table,
    decide,
)
from npudoctor.firewall.xt_match import KNOWN, option_test, unknown_match

_PRIORITIES = {"raw": -300, "mangle": -150, "filter": 0, "security": 50}
_HOOKS = {
    "PREROUTING": "prerouting", "INPUT": "input", "FORWARD": "forward", "OUTPUT": "output",
    "POSTROUTING": "postrouting",
}  # fmt: skip
_NAT = {"PREROUTING": -100, "OUTPUT": -100, "INPUT": 100, "POSTROUTING": 100}
_HARMLESS = {
    "LOG", "NFLOG", "ULOG", "AUDIT", "TRACE", "TCPMSS", "CHECKSUM", "CLASSIFY", "DSCP", "TOS", "TTL", "HL",
    "SECMARK", "CONNSECMARK", "ECN", "TCPOPTSTRIP", "IDLETIMER", "LED", "RATEEST", "TEE",
}  # fmt: skip
_VERDICTS = {"ACCEPT": ACCEPT, "DROP": DROP, "REJECT": DROP, "RETURN": RETURN}
_PORTS = {"--dport": "d", "--dports": "d", "--sport": "s", "--sports": "s", "--ports": "ds"}
_TEXTS = {"--comment", "--string", "--hex-string"}


def parse_xt(text: str, ipv6: bool, tool: str = "iptables") -> list[Table]:
    """The tables of one family; ValueError for what cannot be read."""
    tables: list[Table] = []
    chains: dict[str, Chain] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("*"):
            name, chains = line[1:].strip(), {}
        elif line.startswith(":"):
            chain, policy, *_counters = line[1:].split()
            base = None
            if chain in _HOOKS and policy != "-":
                kind = "nat" if name == "nat" else "filter"
                priority = _NAT.get(chain, 0) if kind == "nat" else _PRIORITIES.get(name, 0)
                base = Base(kind, _HOOKS[chain], priority, policy != "ACCEPT")
            chains[chain] = Chain(chain, (), base)
        elif line.startswith(("-A ", "[")):
            chain, rule = _rule(line[line.index("-A ") :])
            chains[chain] = replace(chains[chain], rules=(*chains[chain].rules, rule))
        elif line.startswith("COMMIT"):
            tables.append(Table("ip6" if ipv6 else "ip", name, chains, tool=tool))
    return tables


def _rule(line: str) -> tuple[str, Rule]:
    """The chain of a rule, and the rule."""
    words = shlex.split(line)
    steps: list[Step] = []
    at, module, contrary = 2, "", False
    while at < len(words):
        word = words[at]
        if word == "!":
            contrary = True
            at += 1
            continue
        if word in ("-j", "-g"):
            steps += _target(word, words[at + 1], words[at + 2 :])
            break
        # What follows an option up to the next one; a text is one word, whatever is in it.
        is_text = word in _TEXTS
        end = at + 1 + is_text
        while not is_text and end < len(words) and words[end] != "!" and not words[end].startswith("-"):
            end += 1
        values = words[at + 1 : end]
        at += 1 + len(values)
        if word == "-m":
            module = values[0]
            steps += [] if module in KNOWN else [Match(unknown_match(module))]
        elif not module or module in KNOWN:
            steps.append(Match(option_test(module, word, values, contrary), _PORTS.get(word, "")))
        contrary = False
    return words[1], Rule(tuple(steps), line)


def _target(how: str, target: str, options: Sequence[str]) -> list[Step]:
    """What a rule does in the end."""
    if how == "-g":
        return [decide(("goto", target))]
    if target in _VERDICTS:
        return [decide(_VERDICTS[target])]
    if target in _HARMLESS:
        return []
    if target in ("MARK", "CONNMARK"):
        return [_marks(target, options)]
    if target == "NOTRACK" or (target == "CT" and "--notrack" in options):
        return [Change(untrack)]
    if target == "CT":
        return []
    if target.isupper() and target in _OTHERS:
        return [Change(spoil), decide(UNKNOWN)]
    return [decide(("jump", target))]


_OTHERS = {
    "DNAT", "SNAT", "MASQUERADE", "REDIRECT", "NETMAP", "TPROXY", "QUEUE", "NFQUEUE", "SET", "SYNPROXY",
    "CLUSTERIP", "SNPT", "DNPT", "HMARK", "RAWDNAT", "RAWSNAT", "BALANCE", "MIRROR", "SAME", "TARPIT",
    "DELUDE", "CHAOS", "STEAL", "ECHO", "RTPENGINE",
}  # fmt: skip


def _marks(target: str, options: Sequence[str]) -> Change:
    """--set-xmark value/mask: the bits of the mask are cleared, then value is XORed in."""
    field = "mark" if target == "MARK" else "connection_mark"
    if len(options) == 2 and options[0] == "--set-xmark":
        value, _slash, mask = options[1].partition("/")
        set_to, bits = int(value, 0), int(mask or "0xffffffff", 0)

        def mark_bits(packet: Packet) -> Packet:
            before = [0] if bits == 0xFFFFFFFF else few(getattr(packet, field))
            after = WORD if before is None else single({old & ~bits ^ set_to for old in before})
            return replace(packet, **{field: after})  # type: ignore[arg-type]

        return Change(mark_bits)
    return Change(lambda packet: replace(packet, mark=WORD, connection_mark=WORD))
