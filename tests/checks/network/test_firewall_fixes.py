"""firewall: the lines that let other nodes in."""

from __future__ import annotations

import pytest

from npudoctor import Risk
from npudoctor.checks.network._firewall_fixes import Blocker, open_ports_fix, zone_of
from npudoctor.testing import fake_host

from .firewall_machine import (
    EMPTY,
    FAR,
    LEGACY,
    LIST,
    LISTED,
    NFT,
    SAVE,
    SEVERAL,
    Programs,
    drops,
    judge,
)

IPTABLES: Programs = {LIST: NFT, "iptables-save": SAVE}


def test_a_zone_that_is_not_clear_is_said() -> None:
    zoneless = drops().replace('"t"', '"firewalld"')
    (finding,) = judge({LIST: zoneless, "firewall-cmd": ""}, variables=SEVERAL).findings
    assert finding.fix is not None
    assert finding.fix.commands[1] == "firewall-cmd --add-port=29500/tcp"
    assert "--get-active-zones" in finding.fix.title
    assert finding.fix.risk is Risk.MANUAL  # which zone is for a person to say


@pytest.mark.parametrize(
    ("chain", "zone"),
    [
        ("filter_IN_public", "public"),
        ("filter_IN_public_allow", "public"),
        ("IN_my_zone_deny", "my_zone"),
        ("filter_IN_policy_allow-host-ipv6", ""),
        ("filter_INPUT_ZONES", ""),
        ("INPUT", ""),
    ],
)
def test_chains_of_zones(chain: str, zone: str) -> None:
    assert zone_of(chain) == zone


def test_ufw_is_told_in_its_words() -> None:
    on = {"/etc/ufw/ufw.conf": "ENABLED=yes\n"}
    (finding,) = judge(IPTABLES, FAR, files=on).findings
    assert finding.fix is not None
    assert finding.fix.commands == (f"ufw allow proto tcp from {FAR} to any port 29500",)
    assert finding.fix.undo_commands == (f"ufw delete allow proto tcp from {FAR} to any port 29500",)


@pytest.mark.parametrize("hook", ["output", "postrouting", "egress"])
def test_on_the_way_out_our_port_is_the_source(hook: str) -> None:
    out = drops().replace('"hook": "input"', f'"hook": "{hook}", "dev": "eth7"')
    (finding,) = judge({LIST: out}, FAR).findings
    assert finding.fix is not None
    line = f"nft insert rule inet t in ip daddr {FAR} tcp sport 29500 accept"
    (told,) = finding.fix.commands
    assert told.startswith(f"{line} comment npudoctor-")


def test_ufw_has_words_for_the_way_out() -> None:
    on = {"/etc/ufw/ufw.conf": "ENABLED=yes\n"}
    legacy = LEGACY.replace(":INPUT DROP", ":INPUT ACCEPT").replace(":OUTPUT ACCEPT", ":OUTPUT DROP")
    (finding,) = judge({LIST: EMPTY, "iptables-legacy-save": legacy}, FAR, files={**on, **LISTED}).findings
    assert finding.fix is not None
    assert finding.fix.commands == (f"ufw allow out proto tcp from any port 29500 to {FAR}",)


def test_ufw_puts_it_in_front_of_the_users_own_rules() -> None:
    side = Blocker("iptables -t filter ufw-user-input", "iptables -t filter ufw-user-input: -A ... -j DROP")
    fix = open_ports_fix(fake_host(), [FAR], [(29500, 29500)], [side], dict)
    assert fix is not None
    assert fix.commands == (f"ufw prepend allow proto tcp from {FAR} to any port 29500",)
    assert fix.undo_commands == (f"ufw delete allow proto tcp from {FAR} to any port 29500",)


def test_all_firewalls_that_drop_are_mended_at_once() -> None:
    legacy = LEGACY.replace(":OUTPUT ACCEPT", ":OUTPUT DROP")
    (finding,) = judge({LIST: drops(), "iptables-legacy-save": legacy}, FAR, files=LISTED).findings
    assert finding.fix is not None
    tools = [" ".join(line.split()[:2]) for line in finding.fix.commands]
    assert tools == ["nft insert", "iptables-legacy -w", "iptables-legacy -w"]
    assert "nft inet t in" in finding.message
    assert "OUTPUT" in finding.message
    back = [" ".join(line.split()[:2]) for line in finding.fix.undo_commands]
    assert back == ["iptables-legacy -w", "iptables-legacy -w", "nft delete"]


def test_too_many_lines_are_none() -> None:
    peers = [f"10.99.1.{number}" for number in range(40)]
    side = Blocker("nft inet t in", "nft inet t in: policy drop")
    assert open_ports_fix(fake_host(), peers, [(29500, 29500)], [side], dict) is None
    fix = open_ports_fix(fake_host(), peers[:30], [(29500, 29500)], [side], dict)
    assert fix is not None
    assert len({line.rpartition(" ")[2] for line in fix.commands}) == 30
