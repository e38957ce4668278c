"""master-address: where the ranks meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.network.master_address import master_address
from npudoctor.host import Options
from npudoctor.testing import Asked, FakeNetwork, ask, fake_host, interface

NAMES: Mapping[str, Any] = {
    "head": ["10.0.0.1"],
    "far": ["10.0.0.9"],
    "six": ["fd00::9"],
    "localhost": ["::1", "127.0.0.1"],
    "slow": "silent",
    "later": "again",
}
SEVERAL = {"NNODES": "2"}


def judge(
    variables: Mapping[str, str],
    *peers: str,
    expect: str = "npu",
    names: Mapping[str, Any] = NAMES,
    routes: tuple[str, ...] = ("default eth0",),
    files: Optional[Mapping[str, Any]] = None,
) -> Asked:
    """A machine with 10.0.0.1 on eth0 and a bridge for containers."""
    there = [
        interface("lo", "127.0.0.1/8"),
        interface("docker0", "172.17.0.1/16", kind="bridge"),
        interface("eth0", "10.0.0.1/24", "fd00::1/64"),
    ]
    network = FakeNetwork(there, routes)
    options = Options(peers=peers)
    return ask(
        master_address,
        fake_host(files, variables=variables, names=names, network=network, options=options, expect=expect),
    )


def test_nothing_said_is_skipped() -> None:
    assert judge({}).status is Status.SKIPPED
    assert judge({"MASTER_ADDR": "", "MASTER_PORT": "29500"}).status is Status.SKIPPED
    assert (
        ask(master_address, fake_host(root="/image", variables={"MASTER_ADDR": "x"})).status is Status.SKIPPED
    )


@pytest.mark.parametrize(
    "variables",
    [
        {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "RANK": "0", **SEVERAL},
        {"MASTER_ADDR": "10.0.0.9", "RANK": "8", **SEVERAL},
        {"MASTER_ADDR": "head", "RANK": "0"},
        {"MASTER_ADDR": "far"},
        {"MASTER_ADDR": "six"},
        {"MASTER_ADDR": "fd00::9"},
        {"MASTER_ADDR": "fe80::9%eth0"},
        {"MASTER_ADDR": "localhost", "MASTER_PORT": "0"},
        {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "RANK": "0"},
        {"MASTER_ADDR": "172.17.0.1", "NNODES": "1"},
        {"MS_SCHED_HOST": "10.0.0.9", "MS_SCHED_PORT": "8118"},
        {"CM_CHIEF_IP": "10.0.0.9", "CM_CHIEF_PORT": "6000"},
        {"PADDLE_MASTER": "10.0.0.9:49178"},
        {"PADDLE_MASTER": "[fd00::9]:49178"},
        {"PADDLE_MASTER": "etcd://10.0.0.9:2379"},
        {"PADDLE_MASTER": "http://far:49178"},
    ],
)
def test_it_is_well(variables: dict[str, str]) -> None:
    asked = judge(variables)
    assert (asked.status, asked.findings) == (Status.OK, ())


def test_what_a_name_means_is_told() -> None:
    assert judge({"MASTER_ADDR": "head", "MS_SCHED_HOST": "10.0.0.9"}).facts == {
        "MASTER_ADDR": ["10.0.0.1"],
        "MS_SCHED_HOST": ["10.0.0.9"],
    }


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"MASTER_ADDR": "nobody"}, "unresolvable"),
        ({"MASTER_ADDR": "10.0.0.9:29500"}, "bad-value"),
        ({"MASTER_ADDR": "tcp://10.0.0.9"}, "bad-value"),
        ({"MASTER_ADDR": "10.0.0.300"}, "bad-value"),
        ({"MASTER_ADDR": "10.0.0.9 "}, "bad-value"),
        ({"MASTER_ADDR": "[fd00::9]"}, "bad-value"),
        ({"MASTER_ADDR": "\u201c10.0.0.9\u201d"}, "bad-value"),
        ({"MASTER_ADDR": "-h"}, "bad-value"),
        ({"MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "65536"}, "bad-port"),
        ({"MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "29500,"}, "bad-port"),
        ({"MS_SCHED_HOST": "10.0.0.9", "MS_SCHED_PORT": "80"}, "bad-port"),
        ({"PADDLE_MASTER": "10.0.0.9:many"}, "bad-port"),
        ({"PADDLE_MASTER": "etcd://10.0.0.9:many"}, "bad-port"),
        ({"PADDLE_MASTER": "ftp://10.0.0.9:2379"}, "bad-value"),
        ({"PADDLE_MASTER": "etcd://nobody:2379"}, "unresolvable"),
        ({"MS_SCHED_HOST": "fd00::9"}, "ipv6"),
        ({"MS_SCHED_HOST": "six"}, "ipv6"),
        ({"MASTER_ADDR": "localhost", **SEVERAL}, "loopback"),
        ({"MASTER_ADDR": "127.0.0.1", **SEVERAL}, "loopback"),
        ({"MASTER_ADDR": "0.0.0.0", **SEVERAL}, "loopback"),  # noqa: S104
        ({"MASTER_ADDR": "10.0.0.9", "RANK": "0"}, "not-ours"),
        ({"MASTER_ADDR": "far", "RANK": "0"}, "not-ours"),
        ({"MASTER_ADDR": "172.17.0.1", **SEVERAL}, "inner"),
    ],
)
def test_what_is_wrong(variables: dict[str, str], code: str) -> None:
    (finding,) = judge(variables).findings
    assert finding.code == f"master-address.{code}"
    assert finding.severity is (Severity.WARNING if code == "inner" else Severity.ERROR)


def test_peers_make_it_several_nodes() -> None:
    assert judge({"MASTER_ADDR": "127.0.0.1"}).findings == ()
    assert judge({"MASTER_ADDR": "127.0.0.1"}, "10.0.0.2").codes == ["master-address.loopback"]


def test_our_own_name_as_debian_writes_it() -> None:
    ours = fake_host().system.name
    given = {"MASTER_ADDR": ours, "RANK": "0", **SEVERAL}
    (finding,) = judge(given, names={ours: ["127.0.1.1"]}).findings
    assert (finding.code, finding.severity) == ("master-address.own-name", Severity.WARNING)
    assert "127.0.1.1" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == ("export MASTER_ADDR=10.0.0.1",)
    assert judge({**given, "NNODES": "1"}, names={ours: ["127.0.1.1"]}).findings == ()
    assert judge(given, names={ours: ["127.0.1.1", "10.0.0.1"]}).findings == ()


def test_no_route() -> None:
    assert judge({"MASTER_ADDR": "10.9.9.9"}, routes=()).codes == ["master-address.no-way"]
    both = {"far": ["fd01::9", "10.0.0.9"]}
    assert judge({"MASTER_ADDR": "far"}, routes=(), names=both).findings == ()


def test_what_was_pasted_is_set_right() -> None:
    for value in ("10.0.0.9:29500", "tcp://10.0.0.9", "\u201c10.0.0.9\u201d", "10.0.0.9;"):
        fix = judge({"MASTER_ADDR": value}).findings[0].fix
        assert fix is not None
        assert fix.commands == ("export MASTER_ADDR=10.0.0.9",)


def test_a_master_that_is_not_ours_in_a_container_is_a_warning() -> None:
    (finding,) = judge({"MASTER_ADDR": "10.0.0.9", "RANK": "0"}, files={"/.dockerenv": ""}).findings
    assert finding.severity is Severity.WARNING


def test_on_a_login_node_it_is_information() -> None:
    (finding,) = judge({"MASTER_ADDR": "nobody"}, expect="auto").findings
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize("name", ["slow", "later"])
def test_name_servers_that_do_not_answer(name: str) -> None:
    asked = judge({"MASTER_ADDR": name})
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, False)
    assert name in asked.reason
    assert judge({"MASTER_ADDR": name}, expect="auto").advisory, "on a login node nobody needs it"


def test_a_bad_port_is_the_echo_of_the_other_check() -> None:
    (finding,) = judge({"MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "x"}).findings
    assert finding.echo_of == ("hccl-ports.bad-value",)


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, name servers that are silent, and no variable at all."""
    ours = fake_host().system.name
    for place in ("nobody", "10.0.0.9:29500", "127.0.0.1", "172.17.0.1", "slow"):
        yield judge({"MASTER_ADDR": place, **SEVERAL})
    yield judge({"MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "x", "RANK": "0"})
    yield judge({"MASTER_ADDR": "10.9.9.9"}, routes=())
    yield judge({"MS_SCHED_HOST": "six"})
    yield judge({"MASTER_ADDR": ours, **SEVERAL}, names={ours: ["127.0.1.1"]})
    yield judge({})
