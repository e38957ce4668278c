"""firewall: real rules mended by `npudoctor fix`, and taken back, with a peer that connects for real."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest

from .firewall_rulesets import ipt, legacy, nft, table

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]

AT_ONCE = 6

STAGE = str(Path(__file__).with_name("firewall_fix_stage.py"))
PEER, PEER6 = "10.77.0.2", "fd77::2"


def play(script: str, back: str, *peers: str) -> dict[str, Any]:
    # With a pid namespace what the scene starts ends with it.
    spaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    argv = [*spaces, sys.executable, STAGE, script, "29500", json.dumps(peers), back]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stderr[-1000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.fixture(autouse=True)
def _tools(need: Callable[..., None], lack: Callable[[str], None]) -> None:
    need("nft", "iptables", "iptables-legacy", "ufw", "firewalld", "dbus-daemon", "ip", "unshare", "nsenter")
    tries = (
        "nft add table inet t && iptables -L && iptables-legacy -L && ip link add a0 type veth peer name b0"
    )
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", tries], capture_output=True, text=True, check=False
    )
    if done.returncode:
        lack(f"this kernel has no firewall to try: {done.stderr.strip()}")


NEIGHBOURS = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"
# Its files are copied, so that nothing of this machine's own is changed.
UFW = """mount -t tmpfs none /media && cp -a /etc/ufw /media/ufw && mount --bind /media/ufw /etc/ufw
cp -a /etc/default /media/default && mount --bind /media/default /etc/default
ufw --force enable"""
FIREWALLD = """mount -t tmpfs none /media && cp -a /etc/firewalld /media/etc
mount --bind /media/etc /etc/firewalld
mount -t tmpfs none /run && mkdir -p /run/dbus && mount -t tmpfs none /var/log
dbus-daemon --system --fork > /dev/null 2>&1
firewalld --nofork > /dev/null 2>&1 &
for _ in $(seq 100); do firewall-cmd --state > /dev/null 2>&1 && break; sleep 0.1; done
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
def test_sick_mended_well_and_taken_back(back: str) -> None:
    names = SCENES if back == "undo" else ("nftables, both families", "ufw", "three at once")
    with ThreadPoolExecutor(AT_ONCE) as pool:  # they wait most of the time
        played = list(pool.map(lambda name: play(SCENES[name][0], back, *SCENES[name][1]), names))
    for name, told in zip(names, played):
        assert well(told) == [], f"{name}: {told}"


def test_a_rule_of_somebody_else_is_neither_doubled_nor_taken_back() -> None:
    """It is there and does nothing, as it stands behind another."""
    same = f"-A INPUT -s {PEER} -p tcp --dport 29500 -j ACCEPT"
    told = play(ipt("-A INPUT -p tcp -j DROP", same), "undo", PEER)
    (action,) = told["fix"]["actions"]
    assert (action["status"], told["fix"]["changed"]) == ("failed", False)
    assert action["reason"] == "already done, and the check still finds it"
    assert (told["undo"]["exit_code"], told["undo"]["changed"]) == (0, False)
    assert plain(told["back"]["rules"]) == plain(told["sick"]["rules"])


@pytest.mark.parametrize("scene", ["iptables", "nftables"])
def test_after_a_reboot_it_is_gone_already(scene: str) -> None:
    told = play(SCENES[scene][0], "reboot", PEER)
    (action,) = told["undo"]["actions"]
    assert (action["status"], told["undo"]["exit_code"], told["undo"]["changed"]) == ("already", 0, False)
    assert told["undo again"]["actions"] == []


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
