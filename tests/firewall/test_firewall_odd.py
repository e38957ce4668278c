"""Odd JSON of nft: what cannot be read is not judged, and takes nothing else with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from npudoctor.firewall.nft import parse_nft

from .test_firewall import ACCEPT, DPORT, MARK, hooked, nft, rule


@pytest.mark.parametrize(
    "statement",
    [
        {"match": {"op": "==", "left": {"concat": []}, "right": 1}},
        {"match": {"op": "in", "left": {"concat": []}, "right": 1}},
        {"match": {"op": "==", "left": {"&": []}, "right": 1}},
        {"match": {"op": "==", "left": {"&": 5}, "right": 1}},
        {"match": {"op": "==", "left": {"ct": 1}, "right": 1}},
        {"match": {"op": "==", "left": {"meta": {"key": []}}, "right": 1}},
        {
            "match": {
                "op": "==",
                "left": {"fib": {"result": "type", "flags": ["daddr"]}},
                "right": {"set": None},
            }
        },
        {"match": {"op": "==", "left": {"fib": {"flags": 1}}, "right": True}},
        {"match": {"op": "==", "left": {"fib": {"flags": None}}, "right": True}},
        {"match": {"op": "<", "left": DPORT, "right": []}},
        {"match": None},
        {"vmap": {"key": DPORT, "data": {"set": [[60000]]}}},
        {"vmap": {"key": DPORT, "data": {"set": [[]]}}},
        {"vmap": []},
        {"mangle": {"key": {"meta": None}, "value": 1}},
        {"jump": None},
    ],
)
def test_odd_statements_cannot_be_judged(statement: Any) -> None:
    assert nft(hooked(), rule(statement, ACCEPT)) == "unknown"
    assert nft(hooked(), rule(ACCEPT), rule(statement)) == "open"
    odd_mark = {"mangle": {"key": MARK, "value": {"&": []}}}
    asks = {"match": {"op": "==", "left": MARK, "right": 1}}
    assert nft(hooked(), rule(odd_mark), rule(asks, ACCEPT)) == "unknown"


@pytest.mark.parametrize("prio", ["1e999", "-1e999", "NaN", "[]", '"x"'])
def test_odd_chains_are_no_rule_set(prio: str) -> None:
    text = json.dumps({"nftables": [{"table": {"family": "inet", "name": "t"}}]})[:-2]
    chain = (
        f', {{"chain": {{"family": "inet", "table": "t", "name": "c", "hook": "input", "prio": {prio}}}}}]}}'
    )
    with pytest.raises(ValueError):
        parse_nft(text + chain)
