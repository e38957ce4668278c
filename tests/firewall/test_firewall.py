"""The firewall's rules as questions to a packet: what is known, what is not, and what is no rule set."""

from __future__ import annotations

import json
from typing import Any, Optional

import pytest

from npudoctor.firewall.hooks import Firewall
from npudoctor.firewall.match import comparison_test
from npudoctor.firewall.nft import parse_nft
from npudoctor.firewall.packet import Packet, all_addresses, is_among, join_ranges, parse_address, subtract
from npudoctor.firewall.sets import parse_elements
from npudoctor.firewall.xt import parse_xt

PACKET = Packet(
    False,
    parse_address("10.77.0.2"),
    parse_address("10.77.0.1"),
    ((1024, 65535),),
    ((60000, 60000),),
    iif="eth7",
)
ANYBODY = Packet(False, all_addresses(False), parse_address("10.77.0.1"), ((1024, 65535),), ((60000, 60001),))


def payload(protocol: str, field: str) -> dict[str, Any]:
    return {"payload": {"protocol": protocol, "field": field}}


DPORT, SADDR, MARK = payload("tcp", "dport"), payload("ip", "saddr"), {"meta": {"key": "mark"}}
NET = {"prefix": {"addr": "10.77.0.0", "len": 24}}


@pytest.mark.parametrize(
    ("op", "left", "right", "sure", "anybody"),
    [
        ("==", DPORT, 60000, True, None),
        ("!=", DPORT, 60000, False, None),
        ("==", DPORT, {"range": [60000, 60001]}, True, True),
        ("==", DPORT, {"set": [60000, {"range": [60001, 60009]}]}, True, True),
        (">=", DPORT, 60001, False, None),
        ("==", DPORT, "@unheard-of", None, None),
        ("==", DPORT, {"what": 1}, None, None),
        ("==", SADDR, NET, True, None),
        ("==", SADDR, {"set": [NET, "what"]}, True, None),
        ("!=", SADDR, {"set": ["10.77.0.9", "what"]}, None, None),
        ("==", payload("ip6", "saddr"), "::1", False, False),
        ("!=", payload("ip6", "saddr"), "::1", False, False),
        ("!=", payload("udp", "dport"), 1, False, False),
        ("==", payload("ip", "ttl"), 64, None, None),
        ("==", {"meta": {"key": "iifname"}}, "eth*", True, None),
        ("==", {"meta": {"key": "iifname"}}, "lo", False, False),
        ("!=", {"meta": {"key": "oifname"}}, "eth7", None, None),
        ("==", {"meta": {"key": "iif"}}, 7, None, None),
        ("in", {"ct": {"key": "state"}}, ["established", "new"], True, True),
        ("!", {"ct": {"key": "state"}}, "new", False, False),
        ("==", {"ct": {"key": "state"}}, {"set": ["related"]}, False, False),
        ("in", {"ct": {"key": "status"}}, "dnat", False, False),
        ("in", {"ct": {"key": "status"}}, "assured", None, None),
        ("in", payload("tcp", "flags"), ["syn", "ack"], True, True),
        ("==", {"&": [payload("tcp", "flags"), ["syn", "ack"]]}, "syn", True, True),
        ("==", {"&": [payload("tcp", "flags"), {"|": ["syn", "ack"]}]}, "syn", True, True),
        ("==", payload("tcp", "flags"), "syn", None, None),
        ("==", {"&": [MARK, 255]}, 0, True, True),
        ("==", {"fib": {"result": "type", "flags": ["daddr"]}}, "local", True, None),
        ("==", {"fib": {"result": "oif", "flags": ["saddr", "iif"]}}, False, False, None),
        ("==", {"exthdr": {"name": "rt"}}, True, False, False),
        ("==", {"numgen": {"mod": 2}}, 0, None, None),
        ("==", "osf name", "Linux", None, None),
        ("==", {"concat": [SADDR, DPORT]}, {"set": [{"concat": [NET, 60000]}]}, True, None),
        ("==", {"concat": [SADDR, DPORT]}, {"set": [{"concat": ["10.0.0.1"]}]}, None, None),
    ],
)
def test_comparisons(op: str, left: Any, right: Any, sure: Optional[bool], anybody: Optional[bool]) -> None:
    test = comparison_test({"op": op, "left": left, "right": right}, {})
    assert test(PACKET) is sure
    assert test(ANYBODY) is anybody


def test_elements_with_a_state_of_their_own_are_unsure() -> None:
    plain = parse_elements([{"elem": {"val": "10.0.0.1", "timeout": 5, "expires": 4}}, "10.0.0.2"])
    assert (plain.values, plain.sure) == (("10.0.0.1", "10.0.0.2"), True)
    assert not parse_elements([{"elem": {"val": "10.0.0.1", "limit": {"rate": 1}}}]).sure
    assert not parse_elements(["*"]).sure


def verdict(*lines: str, packet: Packet = PACKET, table: str = "filter") -> str:
    text = "\n".join([f"*{table}", *lines, "COMMIT"])
    return Firewall(parse_xt(text, ipv6=False)).judge(packet).answer


KEEP = "-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT"


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ("-p tcp -m tcp --dport 60000 -j ACCEPT", "open"),
        ("-p tcp -m tcp ! --dport 60000 -j ACCEPT", "blocked"),
        ("-p tcp -m multiport --dports 22,60000:60015 -j ACCEPT", "open"),
        ("-p 6 -j ACCEPT", "open"),
        ("-p udp -m udp --dport 60000 -j ACCEPT", "blocked"),
        ("! -s 10.78.0.0/16 -i eth+ -j ACCEPT", "open"),
        ('-m comment --comment "-j DROP !" -j ACCEPT', "open"),
        ("-m comment --comment -x -j ACCEPT", "open"),
        ("-m recent --rcheck --name a --rsource -j ACCEPT", "unknown"),
        ("-m set --match-set nodes src -j ACCEPT", "unknown"),
        ("-p tcp -m tcp --tcp-option 8 -j ACCEPT", "unknown"),
        ("-m tcp --dport what -j ACCEPT", "unknown"),
        ("-m limit --limit 3/min -j LOG --log-prefix x", "blocked"),
        ("-j NFQUEUE --queue-num 0", "unknown"),
        ("-j UNHEARDOF --option x", "unknown"),
        ("-p tcp -m tcp --tcp-flags ALL NONE -j ACCEPT", "blocked"),
        ("-p tcp -m tcp --tcp-flags SYN,AE SYN -j ACCEPT", "unknown"),
        ("-p tcp -m tcp --tcp-flags SYN -j ACCEPT", "unknown"),
        ("-m conntrack ! --ctstate INVALID,DNAT -j ACCEPT", "open"),
        ("-m connmark --mark 0x0/0xff -j ACCEPT", "open"),
        ("-m addrtype --src-type LOCAL -j ACCEPT", "blocked"),
        ("-f -j ACCEPT", "blocked"),
        ("[5:300] -A INPUT -j ACCEPT", "open"),
    ],
)
def test_rules_of_iptables(rule: str, answer: str) -> None:
    line = rule if rule.startswith("[") else f"-A INPUT {rule}"
    assert verdict(":INPUT DROP [0:0]", KEEP, line) == answer


def test_chains_that_call_each_other_end() -> None:
    loop = (":INPUT ACCEPT [0:0]", ":A - [0:0]", "-A INPUT -j A", "-A A -j A")
    assert verdict(*loop) == "unknown"


def test_marks() -> None:
    rules = (":PREROUTING ACCEPT [0:0]", "-A PREROUTING -j MARK --set-xmark 0x3/0xf")
    more = ("COMMIT", "*filter", ":INPUT ACCEPT [0:0]", "-A INPUT -m mark --mark 0x2/0x2 -j DROP")
    assert verdict(*rules, *more, table="mangle") == "blocked"
    rules = (rules[0], "-A PREROUTING -j MARK --or-mark 0x1")
    assert verdict(*rules, *more, table="mangle") == "unknown"


def nft(*items: dict[str, Any], **flags: Any) -> str:
    place = {"family": "inet", "table": "t"}
    table = {"table": {"family": "inet", "name": "t", **flags}}
    made = [{kind: {**place, **body} for kind, body in item.items()} for item in items]
    return Firewall(parse_nft(json.dumps({"nftables": [table, *made]}))).judge(PACKET).answer


def hooked(hook: str = "input", **more: Any) -> dict[str, Any]:
    return {"chain": {"name": "c", "type": "filter", "hook": hook, "prio": 0, "policy": "drop", **more}}


def rule(*statements: Any) -> dict[str, Any]:
    return {"rule": {"chain": "c", "handle": 9, "expr": list(statements)}}


ACCEPT, DROP = {"accept": None}, {"drop": None}


@pytest.mark.parametrize(
    ("statements", "answer"),
    [
        ([ACCEPT], "open"),
        ([{"counter": {"packets": 0}}, {"log": None}, ACCEPT], "open"),
        ([{"continue": None}, ACCEPT], "open"),
        ([None, ACCEPT], "unknown"),
        ([{"xt": {"type": "match", "name": "recent"}}, ACCEPT], "unknown"),
        ([{"xt": None}], "unknown"),
        (["what is this", ACCEPT], "unknown"),
        (["last used never", ACCEPT], "open"),
        ([{"queue": {"num": 1}}], "unknown"),
        ([{"redirect": {"port": 8080}}], "unknown"),
        ([{"unheard of": {}}], "unknown"),
        ([{"mangle": {"key": payload("ip", "dscp"), "value": 1}}, ACCEPT], "open"),
        ([{"jump": {"target": "nowhere"}}], "unknown"),
        ([{"vmap": {"key": DPORT, "data": {"set": [[60000, ACCEPT], [60001, DROP]]}}}], "open"),
        ([{"vmap": {"key": DPORT, "data": {"set": [[60001, ACCEPT]]}}}], "blocked"),
        ([{"vmap": {"key": DPORT, "data": "@gone"}}], "unknown"),
    ],
)
def test_statements_of_nftables(statements: list[Any], answer: str) -> None:
    assert nft(hooked(), rule(*statements)) == answer


def test_tables_asleep_and_chains_of_devices() -> None:
    assert nft(hooked(), flags=["dormant"]) == "open"
    assert nft(hooked(), flags="owner") == "blocked"
    assert nft(hooked(), flags="rubbish") == "unknown"
    assert nft(hooked("ingress", dev="eth7")) == "blocked"
    assert nft(hooked("ingress", dev="eth8")) == "unknown"
    assert nft(hooked("ingress")) == "unknown"
    assert nft(hooked("forward")) == "open"


def test_a_set_that_packets_change_says_nothing() -> None:
    named = {"set": {"name": "s", "type": "ipv4_addr", "elem": ["10.77.0.2"]}}
    asks = {"match": {"op": "==", "left": SADDR, "right": "@s"}}
    assert nft(named, hooked(), rule(asks, ACCEPT)) == "open"
    adds = {"set": {"op": "add", "elem": SADDR, "set": "@s"}}
    assert nft(named, hooked(), rule(asks, ACCEPT), rule(adds)) == "unknown"


def test_ranges() -> None:
    assert join_ranges([(5, 6), (1, 2), (3, 3)]) == ((1, 3), (5, 6))
    assert subtract(((1, 9),), [(3, 4), (9, 12)]) == ((1, 2), (5, 8))
    assert is_among(((1, 2), (5, 5)), ((1, 3), (4, 6))) is True
    assert is_among((), ((1, 2),)) is False
    assert isinstance(parse_xt("*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp", False), list)
