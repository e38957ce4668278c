"""firewall: real rules mended by `npudoctor fix`, and taken back, with a peer that connects for real."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable

import pytest

from .firewall_playing import PROGRAMS, lacking, playing
from .firewall_rulesets import ipt, legacy, nft, table

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]

PEER, PEER6 = "10.77.0.2", "fd77::2"
# More of the rules than the kernel has, of the tools that keep some.
KEPT = {
    "firewalld": "firewall-cmd --permanent --zone=public --list-all",
    "ufw": "echo ufw:; ufw status",
    "ufw, a rule of its user": "echo ufw:; ufw status",
}
Scenes = Mapping[str, tuple[str, Sequence[str]]]
Play = Callable[[str, Scenes], "dict[str, dict[str, Any]]"]


@pytest.fixture(scope="module")
def play(need: Callable[..., None], lack: Callable[[str], None]) -> Iterator[Play]:
    """What was told in each scene, by its name."""
    need(*PROGRAMS, "ufw", "firewalld", "dbus-daemon")
    reason = lacking()
    if reason:
        lack(reason)
    with playing("firewall_fix_stage.py") as ask:

        def play(back: str, scenes: Scenes) -> dict[str, dict[str, Any]]:
            asked = [
                [script, 29500, peers, back, KEPT.get(name, "")] for name, (script, peers) in scenes.items()
            ]
            told = dict(zip(scenes, ask(asked)))
            assert [(name, one["failed"]) for name, one in told.items() if "failed" in one] == []
            return told

        yield play


NEIGHBOURS = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"
# Its files are copied, so that nothing of this machine's own is changed.
UFW = """mount -t tmpfs none /media && cp -a /etc/ufw /media/ufw && mount --bind /media/ufw /etc/ufw
cp -a /etc/default /media/default && mount --bind /media/default /etc/default
ufw --force enable"""
# It answers once it is ready; whether it listens a small program asks, not time after time one in Python.
FIREWALLD = """mount -t tmpfs none /media && cp -a /etc/firewalld /media/etc
mount --bind /media/etc /etc/firewalld
mount -t tmpfs none /run && mkdir -p /run/dbus && mount -t tmpfs none /var/log
dbus-daemon --system --fork > /dev/null 2>&1
firewalld --nofork > /dev/null 2>&1 &
own="--system --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.GetNameOwner"
for _ in $(seq 200); do
    dbus-send $own string:org.fedoraproject.FirewallD1 > /dev/null 2>&1 && break
    sleep 0.1
done
firewall-cmd --state > /dev/null
firewall-cmd --zone=public --change-interface=eth7
firewall-cmd --permanent --zone=public --change-interface=eth7
"""
SCENES = {
    "firewalld": (FIREWALLD, (PEER,)),
    "nftables": (table(), (PEER,)),
    "nftables, IPv6": (table(NEIGHBOURS), (PEER6,)),
    "nftables, both families": (table(NEIGHBOURS), (PEER, PEER6)),
    "nftables on the way out": (
        nft("table inet f {", "chain o { type filter hook output priority 0; policy drop; }", "}"), (PEER,),
    ),
    "iptables": (ipt("-P INPUT DROP"), (PEER,)),
    "older iptables": (legacy("-P INPUT DROP", "-P OUTPUT DROP"), (PEER,)),
    "ip6tables": (
        ipt("-A INPUT -p icmpv6 -j ACCEPT", "-P INPUT DROP", tool="ip6tables"), (PEER6,),
    ),
    "ufw": (UFW, (PEER,)),
    "ufw, a rule of its user": (UFW + "\nufw deny proto tcp from any to any port 29500", (PEER,)),
    "three at once": (
        "\n".join((table(), ipt("-A INPUT -p tcp --dport 29500 -j REJECT"), legacy("-P OUTPUT DROP"))),
        (PEER,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("back", ["lines", "undo"])
def test_sick_mended_well_and_taken_back(back: str, play: Play) -> None:
    names = SCENES if back == "undo" else ("nftables, both families", "ufw", "three at once")
    for name, told in play(back, {name: SCENES[name] for name in names}).items():
        assert well(told) == [], f"{name}: {told}"


def test_a_rule_of_somebody_else_is_neither_doubled_nor_taken_back(play: Play) -> None:
    """It is there and does nothing, as it stands behind another."""
    same = f"-A INPUT -s {PEER} -p tcp --dport 29500 -j ACCEPT"
    (told,) = play("undo", {"behind": (ipt("-A INPUT -p tcp -j DROP", same), (PEER,))}).values()
    (action,) = told["fix"]["actions"]
    assert (action["status"], told["fix"]["changed"]) == ("failed", False)
    assert action["reason"] == "already done, and the check still finds it"
    assert (told["undo"]["exit_code"], told["undo"]["changed"]) == (0, False)
    assert plain(told["back"]["rules"]) == plain(told["sick"]["rules"])


def test_after_a_reboot_it_is_gone_already(play: Play) -> None:
    for name, told in play("reboot", {name: SCENES[name] for name in ("iptables", "nftables")}).items():
        undone = told["undo"]
        (action,) = undone["actions"]
        how = (action["status"], undone["exit_code"], undone["changed"])
        assert how == ("already", 0, False), f"{name}: {told}"
        assert told["undo again"]["actions"] == [], name


def well(told: dict[str, Any]) -> list[str]:
    """What was not as it should be: how the check and the peer found it, and what the command said."""
    found = {act: (told[act]["fact"], told[act]["real"]) for act in ("sick", "well", "back")}
    fixed, again, undone = told["fix"], told["again"], told.get("undo")
    right = {
        "sick": found["sick"] == ("blocked", "blocked"),
        "fix": (fixed["exit_code"], fixed["changed"], fixed["failed"]) == (0, True, False),
        "applied": {one["status"] for one in fixed["actions"]} == {"applied"},
        "well": found["well"] == ("open", "open"),
        "again": (again["exit_code"], again["changed"], again["actions"]) == (0, False, []),
        "undo": undone is None or (undone["exit_code"], undone["changed"]) == (0, True),
        "back": found["back"] == ("blocked", "blocked"),
        "rules": plain(told["back"]["rules"]) == plain(told["sick"]["rules"]),
    }
    return [name for name, true in right.items() if not true]


def plain(rules: str) -> list[str]:
    """Without counters; of ufw, which writes its file anew in another form, what its users gave."""
    text = re.sub(r"packets \d+ bytes \d+|\[\d+:\d+\]", "", rules)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return lines[lines.index("ufw:") :] if "Status: active" in lines else lines
