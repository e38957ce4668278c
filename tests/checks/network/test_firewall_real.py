"""firewall: its verdicts beside real connections through real rules, in network namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import pytest

from .firewall_playing import PROGRAMS, lacking, playing
from .firewall_rulesets import IPV6, RULE_SETS, ipt, legacy, nft, old_tools, table

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]

PORTS = {"HCCL_HOST_SOCKET_PORT_RANGE": "29500,60000-60002"}
PEER, PEER6 = "10.77.0.2", "fd77::2"
Play = Callable[..., "list[dict[str, Any]]"]


@pytest.fixture(scope="module")
def play(need: Callable[..., None], lack: Callable[[str], None]) -> Iterator[Play]:
    """What was told with each of some rules."""
    need(*PROGRAMS)
    reason = lacking()
    if reason:
        lack(reason)
    with playing("firewall_stage.py") as ask:
        yield lambda *scripts, peer=PEER: ask([[script, PORTS, [peer]] for script in scripts])


def compare(sets: dict[str, str], played: list[dict[str, Any]]) -> tuple[list[str], list[str], int]:
    """What was wrong, which rule sets had an unknown port, how many verdicts there were."""
    wrong: list[str] = []
    unknown: list[str] = []
    answered = 0
    for name, told in zip(sets, played):
        if "failed" in told:
            wrong.append(f"{name}: {told['failed']}")
            continue
        for port, verdict in told["anybody"].items():
            if verdict not in ("unknown", told["real"][port]) and sets is not IPV6:
                wrong.append(f"{name}: {port} is said to be {verdict} for anybody")
        for port, verdict in told["facts"].items():
            if verdict == "unknown":
                unknown.append(f"{name}: {port}")
            elif verdict != told["real"][port]:
                wrong.append(f"{name}: {port} is said to be {verdict} and is {told['real'][port]}")
            else:
                answered += 1
    return wrong, unknown, answered


def test_verdicts_for_a_peer_are_what_happens(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    wrong, unknown, answered = compare(RULE_SETS, play(*RULE_SETS.values()))
    doubtful = {one.rpartition(": ")[0] for one in unknown}
    whole = len(RULE_SETS) - len(doubtful)
    with capsys.disabled():
        print(
            f"\n{len(RULE_SETS)} rule sets: {whole} answered for every port; of {answered + len(unknown)} "
            f"ports {answered} answered, {len(unknown)} unknown, {len(wrong)} wrong"
        )
        print("unknown:", *unknown, sep="\n  ")
    assert wrong == []
    assert len(RULE_SETS) >= 40
    assert whole >= 0.8 * len(RULE_SETS)


def test_verdicts_for_an_ipv6_peer_are_what_happens(play: Play) -> None:
    wrong, unknown, _answered = compare(IPV6, play(*IPV6.values(), peer=PEER6))
    assert wrong == []
    assert {one.rpartition(": ")[0] for one in unknown} == {"neighbours are not found"}


def test_a_dump_that_does_not_say_whose_it_is_never_stands_for_the_older_tables(play: Play) -> None:
    """As 1.8.7 and before print it, with a kernel that has tables of both kinds."""
    rules = "\n".join(
        (legacy("-P INPUT DROP"), ipt("-A INPUT -p tcp -m comment --comment x -j ACCEPT"), old_tools())
    )
    (told,) = play(rules)
    assert set(told["real"].values()) == {"blocked"}
    assert set(told["facts"].values()) == {"unknown"}
    assert "legacy iptables" in told["reason"]


@pytest.mark.parametrize("name", ["iptables: ufw", "iptables: docker", "iptables: multiport"])
def test_rules_are_read_from_a_dump_that_does_not_say_whose_it_is(name: str, play: Play) -> None:
    tools = (old_tools(), old_tools("rm *tables-save *-nft-save"))
    told, blind = play(*("\n".join((RULE_SETS[name], old)) for old in tools))
    assert told["facts"] == told["real"]
    assert blind["status"] in ("ok", "unknown")
    assert blind["advisory"] or blind["status"] == "ok"
    assert all(verdict in ("unknown", blind["real"][port]) for port, verdict in blind["facts"].items())


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (ipt("-P OUTPUT DROP"), f"iptables -w -t filter -I OUTPUT -d {PEER} -p tcp --sport 29500 -j ACCEPT"),
        (legacy("-P OUTPUT DROP"), f"-w -t filter -I OUTPUT -d {PEER} -p tcp --sport 29500 -j ACCEPT"),
        (
            nft("table inet f {", "chain o { type filter hook postrouting priority 0; policy drop; }", "}"),
            f"nft insert rule inet f o ip daddr {PEER} tcp sport 29500 accept",
        ),
        (table(), f"nft insert rule inet f input ip saddr {PEER} tcp dport 29500 accept"),
    ],
)
def test_the_lines_that_are_shown_let_the_peer_in(rules: str, words: str, play: Play) -> None:
    (told,) = play(rules)
    assert set(told["facts"].values()) == set(told["real"].values()) == {"blocked"}
    (fix,) = told["fixes"]
    assert any(line.partition(" comment ")[0].endswith(words) for line in fix)
    (mended,) = play("\n".join((rules, *fix)))
    assert set(mended["facts"].values()) == {"open"}
    assert mended["facts"] == mended["real"]
