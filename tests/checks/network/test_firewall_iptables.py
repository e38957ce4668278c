"""firewall: whose rules the tools of iptables print."""

from __future__ import annotations

from typing import Any

import pytest

from npudoctor import Status
from npudoctor.testing import Content, link

from .firewall_machine import (
    EMPTY,
    LEGACY,
    LIST,
    LISTED,
    NFT,
    PEER,
    SAVE,
    SEVERAL,
    Programs,
    drops,
    judge,
)

MULTI: dict[str, Content] = {f"/usr/bin/xtables-{kind}-multi": "" for kind in ("nft", "legacy")}
IPTABLES: Programs = {LIST: NFT, "iptables-save": SAVE}


def test_what_iptables_alone_can_print_is_asked_of_it() -> None:
    assert judge(IPTABLES, PEER).facts == {"tcp/29500": "open"}
    old = SAVE.replace(" (nf_tables)", "")
    said: Any = {LIST: NFT, "iptables-save": old, ("iptables", "--version"): "iptables v1.8.7 (nf_tables)\n"}
    assert judge(said, PEER).facts == {"tcp/29500": "open"}
    assert judge({LIST: NFT, "iptables-nft-save": old}, PEER).facts == {"tcp/29500": "open"}
    links = {"/usr/bin/iptables-save": link("xtables-nft-multi"), **MULTI}
    assert judge({LIST: NFT, "iptables-save": old}, PEER, files=links).facts == {"tcp/29500": "open"}


@pytest.mark.parametrize("other", [{}, {"iptables-save": LEGACY}, {"iptables-save": "# (nf_tables)\n"}])
def test_what_cannot_be_read_of_iptables_is_advisory(other: dict[Any, Any]) -> None:
    asked = judge({LIST: NFT, **other}, PEER, variables=SEVERAL)
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)
    assert asked.facts == {"tcp/29500": "unknown"}
    assert "iptables-save" in asked.reason


def test_the_older_iptables_is_asked_only_where_the_kernel_lists_it() -> None:
    answers: dict[Any, Any] = {LIST: EMPTY, "iptables-legacy-save": LEGACY}
    assert judge(answers, PEER).facts == {"tcp/29500": "open"}
    (finding,) = judge(answers, PEER, files=LISTED).findings
    assert finding.fix is not None
    assert finding.fix.commands[0].startswith("iptables-legacy -w -t filter -I INPUT")
    older: dict[Any, Any] = {LIST: EMPTY, "iptables-save": LEGACY}
    for version in ("iptables v1.8.7 (legacy)\n", "iptables v1.4.21\n"):
        said = {**older, ("iptables", "--version"): version}
        assert judge(said, PEER, files=LISTED).facts == {"tcp/29500": "blocked"}
    links = {**LISTED, "/usr/bin/iptables-save": link("xtables-legacy-multi"), **MULTI}
    assert judge(older, PEER, files=links).facts == {"tcp/29500": "blocked"}


@pytest.mark.parametrize("version", ["iptables v1.8.7 (nf_tables)\n", "iptables v1.8.7\n", "what\n", None])
def test_a_dump_of_unknown_kind_is_not_the_older_tables(version: Any) -> None:
    """Up to 1.8.7 both kinds print the same header."""
    answers: dict[Any, Any] = {LIST: EMPTY, "iptables-save": SAVE.replace(" (nf_tables)", "")}
    if version:
        answers["iptables", "--version"] = version
    asked = judge(answers, PEER, files=LISTED, variables=SEVERAL)
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)
    assert "legacy iptables" in asked.reason


@pytest.mark.parametrize("other", [{}, {"iptables-save": SAVE}, {"iptables-legacy-save": "garbage\n"}])
def test_tables_that_nobody_prints_are_unknown(other: dict[Any, Any]) -> None:
    asked = judge({LIST: EMPTY, **other}, PEER, files=LISTED)
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)
    assert asked.facts == {"tcp/29500": "unknown"}
    asked = judge({LIST: drops(), **other}, PEER, files=LISTED)
    assert asked.facts == {"tcp/29500": "blocked"}  # a drop in any is a drop
