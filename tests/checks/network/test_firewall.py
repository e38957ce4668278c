"""firewall: what the rules do with the ports of a job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.checks.network.firewall_machine import (
    EMPTY,
    FAR,
    FIREWALLD,
    HERE,
    LEGACY,
    LIMIT,
    LIST,
    LISTED,
    NFT,
    PEER,
    REFUSED,
    SAVE,
    SEVERAL,
    Programs,
    bans,
    drops,
    judge,
)

from npudoctor import Risk, Severity, Status
from npudoctor.checks.network.firewall import firewall
from npudoctor.host import Options
from npudoctor.host.process.commands import CommandResult
from npudoctor.testing import Asked, ask, fake_host, unreadable

WALLED: Programs = {LIST: FIREWALLD}
IPTABLES: Programs = {LIST: NFT, "iptables-save": SAVE}


def test_no_port_is_skipped() -> None:
    assert judge(variables={}).status is Status.SKIPPED
    assert ask(firewall, fake_host(root="/image", variables=HERE)).status is Status.SKIPPED


def test_no_rules_let_everybody_in() -> None:
    for peers in ((), (PEER,)):
        asked = judge({LIST: EMPTY}, *peers, variables=SEVERAL)
        assert (asked.status, asked.findings) == (Status.OK, ())
        assert asked.facts == {"tcp/29500": "open"}


def test_a_peer_that_is_let_in() -> None:
    asked = judge(WALLED, PEER, variables=SEVERAL)
    assert (asked.status, asked.facts) == (Status.OK, {"tcp/29500": "open"})


def test_a_peer_that_is_kept_out() -> None:
    asked = judge({**WALLED, "firewall-cmd": ""}, FAR, variables=SEVERAL)
    assert (asked.status, asked.facts) == (Status.PROBLEM, {"tcp/29500": "blocked"})
    (finding,) = asked.findings
    assert (finding.code, finding.severity) == ("firewall.blocked", Severity.ERROR)
    assert FAR in finding.message
    assert "29500" in finding.message
    assert "firewalld filter_INPUT" in finding.evidence[0]
    assert finding.fix is not None
    rule = f'rule family="ipv4" source address="{FAR}" port port="29500" protocol="tcp" accept'
    assert (finding.fix.risk, finding.fix.needs_root) == (Risk.CAUTION, True)
    assert finding.fix.commands == (
        f"firewall-cmd --permanent --zone=public '--add-rich-rule={rule}'",
        f"firewall-cmd --zone=public '--add-rich-rule={rule}'",
    )
    undo = finding.fix.undo_commands
    assert ["--permanent" in line for line in undo] == [False, True]  # the last first
    assert all("--zone=public '--remove-rich-rule" in line for line in undo)


def test_the_worst_of_several_peers_counts() -> None:
    asked = judge(WALLED, PEER, FAR, variables=SEVERAL)
    assert asked.facts == {"tcp/29500": "blocked"}
    (finding,) = asked.findings
    assert PEER not in finding.message


def test_a_peer_that_is_ourselves_is_left_out() -> None:
    assert judge(WALLED, PEER, "10.77.0.1", variables=SEVERAL).facts == {"tcp/29500": "open"}


def test_a_peer_by_name() -> None:
    assert judge(WALLED, "node2", variables=SEVERAL, names={"node2": [PEER]}).status is Status.OK
    asked = judge(WALLED, "node2", variables=SEVERAL)
    assert (asked.status, asked.facts) == (Status.UNKNOWN, {"tcp/29500": "unknown"})
    assert "node2" in asked.reason


def test_without_peers_it_may_depend_on_who_comes() -> None:
    asked = judge(WALLED, variables=SEVERAL)
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)
    assert asked.facts == {"tcp/29500": "unknown"}
    assert "--peers" in asked.reason


def test_without_peers_a_default_drop_keeps_everybody_out() -> None:
    asked = judge({LIST: drops()}, variables=SEVERAL)
    (finding,) = asked.findings
    assert (asked.facts, finding.severity) == ({"tcp/29500": "blocked"}, Severity.ERROR)
    assert "every other node" in finding.message
    assert finding.fix is not None
    (line,) = finding.fix.commands
    rule, _space, comment = line.rpartition(" ")
    assert rule == "nft insert rule inet t in tcp dport 29500 accept comment"
    assert comment.startswith("npudoctor-")
    (back,) = finding.fix.undo_commands
    assert back.startswith('nft delete rule inet t in handle "$(nft -a list chain inet t in | ')
    assert comment in back
    assert "--peers" in finding.fix.title


def test_the_two_families_must_agree() -> None:
    """Whoever connects to a machine with both may use either."""
    only = drops(
        '{"match": {"op": "==", "left": {"meta": {"key": "nfproto"}}, "right": "ipv6"}}, {"accept": null}'
    )
    both = ("10.77.0.1/24", "fd77::1/64")
    assert judge({LIST: only}, variables=SEVERAL, addresses=both).facts == {"tcp/29500": "unknown"}
    assert judge({LIST: only}, variables=SEVERAL).facts == {"tcp/29500": "blocked"}


@pytest.mark.parametrize(
    ("variables", "expect", "peers", "severity"),
    [
        (HERE, "none", (), Severity.WARNING),
        (HERE, "none", (FAR,), Severity.ERROR),
        ({**HERE, "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, "none", (), Severity.INFO),
        ({**HERE, "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, "none", (), Severity.ERROR),
        ({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}, "none", (), Severity.INFO),
        ({}, "npu", (), Severity.INFO),
        ({}, "npu", (FAR,), Severity.WARNING),
        ({"RANK": "0"}, "npu", (FAR,), Severity.ERROR),
        ({"HCCL_IF_BASE_PORT": "40000"}, "none", (), Severity.WARNING),
    ],
)
def test_how_bad_it_is(
    variables: dict[str, str], expect: str, peers: tuple[str, ...], severity: Severity
) -> None:
    (finding,) = judge({LIST: drops()}, *peers, variables=variables, expect=expect).findings
    assert finding.severity is severity


def test_each_port_of_a_range_is_told() -> None:
    named = {"HCCL_HOST_SOCKET_PORT_RANGE": "29500,60000-60016"}
    asked = judge(IPTABLES, PEER, variables={**named, "RANK": "0"})
    assert len(asked.facts) == 18
    assert {port for port, answer in asked.facts.items() if answer == "blocked"} == {"tcp/60016"}
    (finding,) = asked.findings
    assert finding.severity is Severity.WARNING  # HCCL takes the first free port
    assert finding.fix is not None
    assert finding.fix.commands == (
        f"iptables -w -t filter -I INPUT -s {PEER} -p tcp --dport 60016 -j ACCEPT",
    )


def test_a_wide_range_is_cut() -> None:
    asked = judge({LIST: drops(LIMIT)}, PEER, variables={"HCCL_HOST_SOCKET_PORT_RANGE": "1024-65535"})
    assert len(asked.facts) == 1024
    assert judge(variables={"HCCL_HOST_SOCKET_PORT_RANGE": "auto"}).status is Status.SKIPPED


def test_a_rule_that_nobody_can_judge() -> None:
    asked = judge({LIST: drops(LIMIT)}, PEER)
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, False)
    assert "nft inet t in: handle 4" in asked.reason
    asked = judge({LIST: drops(LIMIT)}, PEER, variables={**HERE, "SLURM_NNODES": "1"})
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)


def test_a_long_list_of_bans_is_judged_once() -> None:
    """Of fewer ports no more would be known: each half of a range costs as much as the whole."""
    begun = time.monotonic()
    asked = judge({LIST: bans(2000)}, variables={"HCCL_HOST_SOCKET_PORT_RANGE": "60000-61023"})
    assert time.monotonic() - begun < 2
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)
    assert set(asked.facts.values()) == {"unknown"}


def test_it_gives_up_before_its_time_is_over() -> None:
    asked = judge({LIST: bans(2)}, options=Options(peers=(PEER,), timeout=-1.0), variables=SEVERAL)
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)
    assert asked.facts == {"tcp/29500": "unknown"}
    assert "too many rules" in asked.reason


@pytest.mark.parametrize(
    "answer",
    [
        None,
        REFUSED,
        CommandResult(LIST, "timeout"),
        CommandResult(LIST, "flooded"),
        CommandResult(LIST, "untrusted"),
        CommandResult(LIST, "exited", 0, "no json"),
        CommandResult(LIST, "exited", 0, '{"nftables": [{"rule": {"family": 1}}]}'),
        CommandResult(LIST, "exited", 0, "[]"),
        CommandResult(LIST, "exited", 0, '{"nftables": ' + "[" * 100000),
    ],
)
def test_it_cannot_tell_without_the_rules(answer: Any) -> None:
    asked = judge({LIST: answer} if answer else {}, PEER)
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)
    assert (asked.facts, asked.findings) == ({"tcp/29500": "unknown"}, ())


def test_tables_that_root_may_not_list() -> None:
    asked = judge(None, PEER, files={"/proc/net/ip_tables_names": unreadable()})
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)


def test_only_root_sees_the_rules() -> None:
    asked = judge(None, PEER, euid=1000)
    assert (asked.status, asked.advisory, asked.facts) == (Status.UNKNOWN, True, {})


def test_a_kernel_without_nftables_is_not_asked() -> None:
    host = fake_host(variables=HERE)
    files = {
        "/proc/modules": "ip_tables 32768 1 iptable_filter, Live 0x0\n",
        f"/lib/modules/{host.system.release}/modules.builtin": "kernel/fs/ext4/ext4.ko\n",
    }
    assert judge({}, PEER, files=files).facts == {"tcp/29500": "open"}
    loaded = {**files, "/proc/modules": "nf_tables 1 0 - Live 0x0\n"}
    assert judge({}, PEER, files=loaded).facts == {"tcp/29500": "unknown"}


def test_a_machine_that_nobody_can_reach_is_skipped() -> None:
    asked = ask(firewall, fake_host(variables={"HCCL_IF_BASE_PORT": "40000"}, commands={LIST: EMPTY}))
    assert asked.status is Status.SKIPPED


def test_a_master_by_name_is_resolved() -> None:
    named = {"MASTER_ADDR": "head.example", "MASTER_PORT": "29500"}
    assert judge(variables=named, names={"head.example": ["10.77.0.1"]}).facts == {"tcp/29500": "open"}
    assert judge(variables=named, names={"head.example": [FAR]}).status is Status.SKIPPED
    assert judge(variables=named).status is Status.SKIPPED
    assert judge(variables={**named, "RANK": "0"}).facts == {"tcp/29500": "open"}


def test_options_have_no_peers_by_themselves() -> None:
    assert Options().peers == ()


ZONELESS = drops().replace('"t"', '"firewalld"')


def scene(tmp: Path) -> Iterator[Asked]:
    """Open, blocked for some and for all, and each reason for not knowing."""
    yield judge(variables={})
    yield judge({LIST: EMPTY}, PEER)
    yield judge({LIST: FIREWALLD}, FAR, variables=SEVERAL)
    yield judge({LIST: FIREWALLD, "firewall-cmd": ""}, FAR, variables=SEVERAL)
    yield judge({LIST: ZONELESS, "firewall-cmd": ""}, variables=SEVERAL)
    yield judge({LIST: drops()}, expect="npu")
    yield judge({LIST: FIREWALLD})
    yield judge({LIST: FIREWALLD}, "node2")
    yield judge({LIST: drops(LIMIT)}, PEER)
    for answer in (REFUSED, CommandResult(LIST, "timeout"), CommandResult(LIST, "exited", 0, "no json")):
        yield judge({LIST: answer}, PEER, variables=HERE)
    yield judge({LIST: EMPTY}, PEER, files=LISTED)
    yield judge({LIST: NFT}, PEER)
    yield judge({LIST: NFT, "iptables-save": LEGACY}, PEER)
    yield judge({LIST: NFT, "iptables-save": "# (nf_tables)\n"}, PEER)
    yield judge({LIST: EMPTY, "iptables-save": LEGACY}, PEER, files=LISTED)
    yield judge({LIST: bans(2)}, options=Options(peers=(PEER,), timeout=-1.0))
    yield judge(euid=1000)
    yield judge(addresses=(), expect="npu")
