"""trial-rendezvous: names that lie, masters that are elsewhere, and what is in the way of a connection."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any, Optional

import pytest
from tests.checks.trial.test_trial_rendezvous import (
    ETH,
    JOB,
    LO,
    TWO,
    attempt,
    judged,
    machine,
    own,
    questions,
)

from npudoctor import Finding, Host, Severity, Status
from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import replace
from npudoctor.host.network.interfaces import Address, Interface
from npudoctor.host.network.network import Network
from npudoctor.testing import package_files
from npudoctor.testing.network import FakeInterface
from npudoctor.trial.trials import Trial

TORCH = package_files("torch", "2.7.0")
MINDSPORE = package_files("mindspore", "2.7.0")
NAMED = {**JOB, "MASTER_ADDR": "node1.train"}
PLACE: dict[str, Any] = {"label": "MASTER_PORT", "place": "node1.train", "port": 29500}
FIREWALL = "let this machine's firewall accept traffic on lo before any other rule"


def leading(what: str, number: int = 0, address: str = "10.0.0.99", **facts: object) -> Trial:
    """The master's name means an address, and this is what came of a connection to it."""
    return Trial((
        attempt("resolve", addresses=[address], took=0.01, label="MASTER_PORT", place="node1.train"),
        attempt(what, number, **{**PLACE, **facts}),
    ))  # fmt: skip


def only(trial: Trial, **more: Any) -> Finding:
    (finding,) = judged(*trial.attempts, **{"variables": NAMED, **more}).findings
    return finding


@pytest.mark.parametrize(
    ("facts", "severity", "end", "lines"),
    [
        ({}, None, "", ()),
        ({"beside": False, "nowhere": False, "alone": []}, None, "", ()),
        ({"nowhere": True, "beside": True}, Severity.ERROR, "even for names that do not exist", ()),
        ({"beside": True}, Severity.WARNING, "that does not exist: the master may be another machine", ()),
        ({"beside": True, "alone": ["10.0.0.5"]}, Severity.ERROR, "itself resolves to this machine, 10.0.0.5",
         ("export MASTER_ADDR=10.0.0.5",)),
    ],
)  # fmt: skip
def test_a_name_to_which_the_resolver_answers_anything(
    facts: Mapping[str, Any], severity: Optional[Severity], end: str, lines: tuple[str, ...]
) -> None:
    trial = leading("call", stranger="npudoctor-1.train", **facts)
    asked = judged(*trial.attempts, variables=NAMED)
    assert asked.codes == ([] if severity is None else ["trial-rendezvous.cannot-connect"])
    for finding in asked.findings:
        assert finding.weight is severity and finding.message.endswith(end)
        assert finding.message.startswith("MASTER_ADDR is node1.train, which resolves here to 10.0.0.99")
        assert finding.fix and finding.fix.commands == lines
    # On a login node the variables may be another machine's.
    login = judged(*trial.attempts, variables=NAMED, expect="auto")
    assert all(finding.weight is Severity.INFO for finding in login.findings)


@pytest.mark.parametrize(
    ("number", "variables", "severity"),
    [
        (errno.ECONNREFUSED, {}, Severity.ERROR),
        (errno.EHOSTUNREACH, {}, Severity.ERROR),
        (errno.ETIMEDOUT, {}, Severity.ERROR),
        (0, {}, None),
        # A service of a cluster leads to its pod only once that is ready, and by a port of its own.
        (errno.ECONNREFUSED, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, Severity.WARNING),
        (errno.ETIMEDOUT, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, None),
    ],
)
def test_the_first_rank_is_here_and_its_address_is_not(
    number: int, variables: Mapping[str, str], severity: Optional[Severity]
) -> None:
    trial = leading("connect-elsewhere", number)
    asked = judged(*trial.attempts, variables={**NAMED, "RANK": "0", **variables})
    assert [finding.weight for finding in asked.findings] == ([severity] if severity else [])
    for finding in asked.findings:
        assert "which is not this machine (10.0.0.99), although the first rank runs here" in finding.message
        assert finding.fix and finding.fix.commands == ("export MASTER_ADDR=10.0.0.5",)


def test_a_job_of_one_node_meets_on_the_loopback_address() -> None:
    one = {**NAMED, "NNODES": "1"}
    fix = only(leading("connect-elsewhere", errno.ECONNREFUSED), variables=one).fix
    assert fix and fix.commands == ("export MASTER_ADDR=127.0.0.1",)


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, False),
        ({"RANK": "0"}, True),
        ({"RANK": "1", "NODE_RANK": "0"}, False),
        ({"NODE_RANK": "0", "NNODES": "2"}, True),
        ({"NODE_RANK": "1", "NNODES": "2"}, False),
        ({"NNODES": "1"}, True),
        ({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, True),
    ],
)
def test_who_is_sure_to_have_the_first_rank(variables: Mapping[str, str], first: bool) -> None:
    for place in ("10.0.0.9", "master"):
        points = questions(machine(Trial(), {**JOB, "MASTER_ADDR": place, **variables}))
        assert [point["first"] for point in points if point["label"]] == [first]


@pytest.mark.parametrize(
    ("connections", "files", "severity"),
    [(0, {}, Severity.ERROR), (2, {}, Severity.WARNING), (2, TORCH, Severity.ERROR),
     (2, MINDSPORE, Severity.ERROR)],
)  # fmt: skip
def test_a_few_connections_are_enough_for_some(
    connections: int, files: dict[str, Any], severity: Severity
) -> None:
    port: dict[str, Any] = {"label": "MASTER_PORT", "place": "127.0.0.1", "port": 29500}
    refused = attempt("connect", errno.ECONNREFUSED, **port, connections=connections)
    (finding,) = judged(refused, files=files).findings
    assert finding.weight is severity
    if connections:
        assert finding.message == (
            "ranks open several connections to 127.0.0.1 at once, but only 2 could be made: Connection "
            "refused"
        )


@pytest.mark.parametrize(("files", "codes"), [(TORCH, ["trial-rendezvous.cannot-connect"]), (MINDSPORE, [])])
def test_without_netlink_gloo_stops(files: dict[str, Any], codes: list[str]) -> None:
    """MindSpore was seen to start."""
    asked = judged(attempt("interfaces", errno.EAFNOSUPPORT), files=files)
    assert asked.codes == codes and asked.status is (Status.PROBLEM if codes else Status.OK)


def without_netlink(trial: Trial, variables: Mapping[str, str], files: dict[str, Any]) -> Host:
    def refused() -> None:
        raise CannotTell("no netlink", advisory=True)

    host = machine(trial, variables, files)
    host.network = Network(refused)  # type: ignore[arg-type]
    return host


def test_what_is_found_is_said_also_where_no_interface_is_told() -> None:
    from npudoctor.checks.trial.trial_rendezvous import trial_rendezvous
    from npudoctor.testing import ask

    attempts = (attempt("interfaces", errno.EPERM), own(number=-2), attempt("connect", errno.EPERM))
    asked = ask(trial_rendezvous, without_netlink(Trial(attempts), JOB, TORCH))
    assert asked.codes == ["trial-rendezvous.cannot-connect", "trial-rendezvous.own-name"]


@pytest.mark.parametrize(
    ("files", "code", "severity"),
    [({}, "cannot-connect", Severity.ERROR), (TORCH, "slow", Severity.WARNING)],
)
def test_an_address_that_is_silent_comes_first(files: dict[str, Any], code: str, severity: Severity) -> None:
    silent = attempt("detour", errno.ETIMEDOUT, **PLACE, address="fd00::7")
    (finding,) = judged(silent, variables=NAMED, files=files).findings
    assert finding.code == f"trial-rendezvous.{code}" and finding.weight is severity
    assert finding.message.startswith(
        "node1.train (MASTER_ADDR) resolves first to fd00::7, which does not answer"
    )


@pytest.mark.parametrize(
    ("files", "code", "severity"),
    [
        ({}, "cannot-connect", Severity.ERROR),
        (TORCH, "cannot-connect", Severity.ERROR),
        (MINDSPORE, "slow", Severity.WARNING),
    ],
)
def test_an_address_of_ours_that_is_silent_comes_first(
    files: dict[str, Any], code: str, severity: Severity
) -> None:
    connected = attempt("connect", **PLACE, silent="::1")
    (finding,) = judged(connected, variables=NAMED, files=files).findings
    assert finding.code == f"trial-rendezvous.{code}" and "resolves first to ::1" in finding.message
    assert finding.weight is severity


@pytest.mark.parametrize(
    ("variables", "files", "severity", "lines"),
    [
        (JOB, TORCH, Severity.ERROR, ("export GLOO_SOCKET_IFNAME=lo",)),
        (JOB, {}, Severity.WARNING, ("export GLOO_SOCKET_IFNAME=lo",)),
        (TWO, TORCH, Severity.ERROR, ()),
    ],
)
def test_the_interface_that_gloo_is_told_to_use(
    variables: Mapping[str, str], files: dict[str, Any], severity: Severity, lines: tuple[str, ...]
) -> None:
    label = "GLOO_SOCKET_IFNAME=eth0"
    way = attempt("connect-way", errno.ETIMEDOUT, label=label, address="10.0.0.5")
    (finding,) = judged(way, variables={**variables, "GLOO_SOCKET_IFNAME": "eth0"}, files=files).findings
    assert (
        finding.message == f"nothing on this machine can connect to 10.0.0.5 ({label}): Connection timed out"
    )
    assert finding.weight is severity and finding.fix and finding.fix.commands == lines


@pytest.mark.parametrize(
    ("value", "addresses"), [("eth0", ["10.0.0.5"]), ("lo,eth0", ["127.0.0.1", "10.0.0.5"]), ("ib0", [])]
)
def test_which_addresses_gloo_would_use(value: str, addresses: list[str]) -> None:
    host = machine(Trial(), {**JOB, "GLOO_SOCKET_IFNAME": value})
    questions(host)
    asked = host.trials.asked["rendezvous"]["ways"]  # type: ignore[attr-defined]
    assert [way["address"] for way in asked] == addresses


BARE = FakeInterface("lo", loopback=True, state="unknown", mtu=65536)
HOST = FakeInterface(
    "lo", loopback=True, state="unknown", addresses=(Address("127.0.0.1", 32, scope="host"),)
)
GIVE = "ip address add 127.0.0.1/8 dev lo"


@pytest.mark.parametrize(
    ("loopback", "address", "number", "title", "lines"),
    [
        (LO, "127.0.0.1", errno.ETIMEDOUT, FIREWALL, ()),
        (LO, "127.0.0.1", errno.ECONNREFUSED, FIREWALL, ()),
        (LO, "10.0.0.5", errno.ECONNREFUSED, FIREWALL, ()),
        (LO, "127.0.0.1", errno.EACCES, "find what blocks the route to 127.0.0.1", ()),
        (LO, "127.0.0.1", errno.EHOSTUNREACH, "find what blocks the route to 127.0.0.1", ()),
        (replace(LO, queue="tbf"), "127.0.0.1", errno.ETIMEDOUT, "remove the queueing discipline",
         ("tc qdisc del dev lo root",)),
        (replace(LO, queue="noqueue"), "127.0.0.1", errno.ETIMEDOUT, FIREWALL, ()),
        (BARE, "127.0.0.1", errno.ENETUNREACH, "restore the address of lo", (GIVE,)),
        (replace(BARE, mtu=60), "127.0.0.1", errno.ETIMEDOUT, "restore the address of lo",
         ("ip link set dev lo mtu 65536", GIVE)),
        (HOST, "127.0.1.1", errno.ETIMEDOUT, "restore the address of lo", (GIVE,)),
        (LO, "127.0.1.1", errno.ETIMEDOUT, FIREWALL, ()),
        (LO, "::1", errno.EADDRNOTAVAIL, "for a job on this node alone", ("export MASTER_ADDR=127.0.0.1",)),
        (replace(LO, addresses=(*LO.addresses, Address("::1", 128, scope="host"))), "::1", errno.ETIMEDOUT,
         FIREWALL, ()),
    ],
)  # fmt: skip
def test_what_is_in_the_way(
    loopback: FakeInterface, address: str, number: int, title: str, lines: tuple[str, ...]
) -> None:
    finding = only(leading("connect", number, address), interfaces=(loopback, ETH))
    assert finding.fix and finding.fix.title.startswith(title) and finding.fix.commands == lines


def test_a_network_namespace_with_nothing_in_it() -> None:
    off = replace(LO, up=False, state="down")
    fix = only(leading("connect", errno.ENETUNREACH, "127.0.0.1"), interfaces=(off,)).fix
    assert fix and fix.title == "bring lo up in the network namespace in which the job starts"


def test_an_address_of_ours_without_its_route() -> None:
    """It is on the interface, and no socket can be bound to it."""
    trial = Trial((own("10.0.0.5"), *leading("call", errno.ETIMEDOUT, "10.0.0.5").attempts))
    asked = judged(*trial.attempts, variables=NAMED)
    assert asked.codes == ["trial-rendezvous.own-name", "trial-rendezvous.cannot-connect"]
    assert [finding.weight for finding in asked.findings] == [Severity.WARNING, Severity.ERROR]
    for finding in asked.findings:
        line = "ip route add local 10.0.0.5 dev eth0 table local"
        assert finding.fix and finding.fix.commands == (line,)


@pytest.mark.parametrize(
    ("address", "line"), [("127.0.1.1", GIVE), ("::1", "sysctl -w net.ipv6.conf.lo.disable_ipv6=0")]
)
def test_our_name_is_a_loopback_address_that_lo_lacks(address: str, line: str) -> None:
    (finding,) = judged(own(address), interfaces=(HOST, ETH)).findings
    assert finding.fix and finding.fix.commands == (line,)


@pytest.mark.parametrize(("variables", "lines"), [(JOB, ("export GLOO_SOCKET_IFNAME=lo",)), (TWO, ())])
def test_the_loopback_interface_does_where_our_own_name_does_not(
    variables: Mapping[str, str], lines: tuple[str, ...]
) -> None:
    refused = attempt("connect-own", errno.ETIMEDOUT)
    ours = own("10.0.0.5", ours=("10.0.0.5",))
    (finding,) = judged(ours, refused, attempt("connect-loopback"), variables=variables).findings
    assert finding.fix and finding.fix.commands == lines
    (finding,) = judged(ours, refused, attempt("connect-loopback", errno.ETIMEDOUT)).findings
    assert finding.fix and finding.fix.title.startswith(FIREWALL)


def test_an_address_of_ours_that_another_machine_has() -> None:
    taken = Interface("eth0", addresses=(Address("10.0.0.5", 24), Address("fd00::5", 64, ready=False)))
    refused = leading("call", errno.ETIMEDOUT, "fd00::5")
    finding = only(refused, interfaces=(LO, taken))
    assert (
        finding.weight is Severity.ERROR
        and "eth0 has its address, but another machine has it too" in finding.message
    )
    free = Interface("eth0", addresses=(Address("10.0.0.5", 24),))
    assert only(refused, interfaces=(LO, free)).weight is Severity.WARNING
