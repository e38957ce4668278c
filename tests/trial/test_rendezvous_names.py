"""Names that a resolver answers wrongly, masters that are elsewhere, and ways that lead nowhere; tried for
real in network namespaces."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

import pytest
from tests.trial import name_server
from tests.trial.refusing import refused_calls
from tests.trial.starting import refusals
from tests.trial.test_rendezvous import FAR, HOME, ORDINARY, in_namespace, met, named, point, steps, the

from npudoctor.trial.trials import Trial

pytestmark = [pytest.mark.whole, pytest.mark.needs_root]
Named = Callable[..., tuple[str, ...]]
__all__ = ["named"]  # a fixture
NETLINK = f"{ {'x86_64': 41, 'aarch64': 198}[os.uname().machine] }:{errno.EAFNOSUPPORT}:0:16"
FIRST = point("10.9.9.2", 29544, first=True)
# The way back to us, as a container's host passes a port on.
BACK = """
nft add table ip n; nft 'add chain ip n o { type nat hook output priority -100; }'
nft add rule ip n o ip daddr 10.9.9.2 tcp dport 29544 dnat to 10.9.9.1
"""
CHAIN = "nft add table {family} t; nft 'add chain {family} t c {{ type filter hook input priority 0; }}'"


@pytest.fixture
def answering(named: Named, tmp_path: Path) -> Callable[..., tuple[str, ...]]:
    """A machine with a name server of its own that knows these names."""

    def script(*rules: str, options: str = "", hosts: str = HOME) -> tuple[str, ...]:
        ready = tmp_path / f"ready-{len(list(tmp_path.iterdir()))}"  # of this server, not of one before
        words = " ".join(f"'{rule}'" for rule in rules)
        serve = f"{sys.executable} {name_server.__file__} {ready} {words} >/dev/null 2>&1 &\n"
        serve += f"for time in $(seq 100); do [ -e {ready} ] || sleep 0.1; done"
        return named(hosts, serve, f"nameserver 127.0.0.1\n{options}")

    return script


def doubts(trial: Trial, what: str = "call") -> dict[str, Any]:
    """What is told of the name, without the name of the trial's own."""
    known = ("beside", "nowhere", "alone")
    return {name: value for name, value in the(trial, what).facts.items() if name in known and value}


def test_a_name_server_that_answers_for_every_name(answering: Named) -> None:
    trial = met(point("master", 29544), before=answering("*=10.9.9.9"))
    assert doubts(trial) == {"beside": True, "nowhere": True}
    assert the(trial, "call").number == errno.ENETUNREACH and the(trial, "call").facts["stranger"]


def test_a_domain_in_which_every_name_is_answered(answering: Named) -> None:
    """The name itself would have meant this machine."""
    rules = ("node.train=127.0.0.2", "*.corp.example=10.9.9.9")
    before = answering(*rules, options="search corp.example\noptions ndots:5\n")
    assert doubts(met(point("node.train", 29544), before=before)) == {"beside": True, "alone": ["127.0.0.2"]}
    well = met(point("node.train", 29544), before=answering(*rules, options="search corp.example\n"))
    assert refusals(well) == {} and "call" not in steps(well)


def test_a_name_server_that_tells_the_truth(answering: Named) -> None:
    assert doubts(met(point("master", 29544), before=answering("master=10.9.9.9"))) == {}
    # An address is no name, and the file of hosts is no name server.
    assert doubts(met(point("10.9.9.9", 29544), before=answering("*=10.9.9.9"))) == {}
    hosts = answering("*=10.9.9.8", hosts=HOME + "10.9.9.9 master\n")
    assert doubts(met(point("master", 29544), before=hosts)) == {}


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ("", {"connect-elsewhere": errno.ECONNREFUSED}),
        ("ip route add unreachable 10.9.9.2", {"connect-elsewhere": errno.EHOSTUNREACH}),
        ("ip link set near0 down", {"connect-elsewhere": errno.ENETUNREACH}),
        (
            "ip neigh replace 10.9.9.2 lladdr 02:00:00:00:00:77 dev near0",
            {"connect-elsewhere": errno.ETIMEDOUT},
        ),
        (BACK, {}),
    ],
)
@pytest.mark.parametrize("who", [(), ORDINARY], ids=("root", "ordinary"))
def test_the_first_rank_is_here_and_its_address_is_not(
    more: str, refused: dict[str, int], who: Sequence[str], need: Callable[..., None]
) -> None:
    need("nft")
    trial = met(FIRST, before=(*in_namespace(FAR + more), *who))
    assert refusals(trial) == refused and "bind" in steps(trial) and "call" not in steps(trial)


def test_an_address_that_is_silent_comes_first(named: Named) -> None:
    hosts = HOME + "10.9.9.1 master\nfd00::7 master\n"
    far = FAR + "ip address add fd00::5/64 dev near0 nodad"
    trial = met(point("master", 29544), before=named(hosts, far))
    assert refusals(trial) == {"detour": errno.ETIMEDOUT}
    assert the(trial, "detour").facts["address"] == "fd00::7"
    # Without a way to it the resolver puts it last.
    well = met(point("master", 29544), before=named(hosts, FAR))
    assert refusals(well) == {} and "detour" not in steps(well)


def test_without_netlink_no_interface_is_told() -> None:
    assert refusals(met(point(), before=refused_calls(NETLINK))) == {"interfaces": errno.EAFNOSUPPORT}


@pytest.mark.parametrize(
    ("rules", "address", "refused"),
    [
        (["ip daddr 10.9.9.1 drop"], "10.9.9.1", {"connect-way": errno.ETIMEDOUT}),
        (["ip daddr 10.9.9.1 drop"], "127.0.0.1", {}),
        ([], "10.9.9.1", {}),
        ([], "::1", {}),
    ],
)
def test_the_interface_that_gloo_is_told_to_use(
    named: Named, need: Callable[..., None], rules: list[str], address: str, refused: dict[str, int]
) -> None:
    need("nft")
    ways = [{"label": "GLOO_SOCKET_IFNAME=eth0", "address": address}]
    trial = met(point(), before=named(HOME, ruled(rules)), ways=ways)
    assert refusals(trial) == refused and the(trial, "connect-way").facts["address"] == address


def test_the_first_of_our_addresses_is_silent(named: Named, need: Callable[..., None]) -> None:
    """Gloo tells others the first one only; who looks for a master asks for the next one a second later."""
    need("nft")
    hosts = "::1 node\n10.9.9.1 node\n"
    before = named(hosts, ruled(["ip6 daddr ::1 drop"], "inet"))
    trial = met(point("node", 29544), before=before, own=True)
    assert refusals(trial) == {"connect-own": errno.ETIMEDOUT}
    assert the(trial, "connect").facts["silent"] == "::1"
    well = met(point("node", 29544), before=named(hosts, ruled([], "inet")), own=True)
    assert refusals(well) == {} and "silent" not in the(well, "connect").facts


def ruled(rules: Sequence[str], family: str = "ip") -> str:
    """A second address, and rules of a firewall."""
    lines = [f"nft add rule {family} t c {rule}" for rule in rules]
    return "\n".join(("ip address add 10.9.9.1/32 dev lo", CHAIN.format(family=family), *lines))


def own_name(named: Named, rules: Sequence[str]) -> Trial:
    return met(point(), before=named(HOME + "10.9.9.1 node\n", ruled(rules)), own=True)


def test_our_own_name_leads_nowhere_and_the_loopback_address_does(
    named: Named, need: Callable[..., None]
) -> None:
    need("nft")
    trial = own_name(named, ["ip daddr 10.9.9.1 drop"])
    assert refusals(trial) == {"connect-own": errno.ETIMEDOUT} and "connect-loopback" in steps(trial)
    well = own_name(named, [])
    assert refusals(well) == {} and "connect-loopback" not in steps(well)
