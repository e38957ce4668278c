"""hccl-interface: HCCL_IF_IP against the addresses and the ways that there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from tests.checks.network.interfaces_machine import ask_within, machine

from npudoctor import Risk, Severity, Status, Unknown
from npudoctor.checks.network.hccl_interface import hccl_interface
from npudoctor.checks.network.hccl_interface import hccl_interface as check
from npudoctor.host.network.network import Network
from npudoctor.testing import Asked, FakeNetwork, ask, device, fake_host, interface

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
NAME = "HCCL_IF_IP"
SEVERAL = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "192.0.2.9"}
ALONE = {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "192.0.2.1"}


def told(value: str, variables: Optional[dict[str, str]] = None, **more: Any) -> Asked:
    given = {NAME: value, **(SEVERAL if variables is None else variables)}
    return ask(hccl_interface, machine(given, **more))


@pytest.mark.parametrize(
    ("value", "variables"),
    [
        ("192.0.2.1", SEVERAL),
        ("192.0.2.1%eth0", SEVERAL),
        ("192.0.2.1", {}),
        ("192.0.2.1", {"MASTER_ADDR": "nobody-knows"}),
        ("2001:db8::1", {"MASTER_ADDR": "2001:db8::9"}),
        ("2001:DB8:0::1", {"MASTER_ADDR": "2001:db8::9"}),
        ("2001:db8::1", SEVERAL),  # a master of another family says nothing of this way
        ("fe80::1%eth0", {}),
        ("fe80::1", {}),
        ("127.0.0.1", ALONE),
        ("198.51.100.1", ALONE),
        ("198.51.100.1", {"MASTER_ADDR": "198.51.100.7"}),
        ("192.0.2.1", {**SEVERAL, "HCCL_SOCKET_IFNAME": "eth"}),
        ("192.0.2.1", {**SEVERAL, "HCCL_SOCKET_IFNAME": ""}),
        ("192.0.2.1", {**SEVERAL, "HCCL_SOCKET_IFNAME": "a,"}),
    ],
)
def test_quiet_when_well(value: str, variables: dict[str, str]) -> None:
    asked = told(value, variables)
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["interface"] and asked.facts["mtu"] in (9000, 1500, None)


def test_skipped_where_it_does_not_apply() -> None:
    assert ask(hccl_interface, machine(SEVERAL)).status is Status.SKIPPED
    assert told("192.0.2.77", npus=0, gpus=8).status is Status.SKIPPED
    assert ask(hccl_interface, fake_host(root="/image", variables={NAME: "x"})).status is Status.SKIPPED


def test_cannot_tell_where_the_kernel_is_silent() -> None:
    def silent() -> list[Any]:
        raise Unknown("the kernel cannot be asked")

    host = machine({NAME: "192.0.2.1"})
    host._parts["network"] = Network(silent)
    assert ask(hccl_interface, host).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("192.0.2.1 172.17.0.1", "more than one"),
        ("192.0.2.1,198.51.100.1", "more than one"),
        ("192.0.2.1:60000", "not an IP address"),
        ("eth0", "not an IP address"),
        ("192.0.2", "not an IP address"),
        ("“192.0.2.1:1”", "not an IP address"),
    ],
)
def test_what_hccl_refuses(value: str, said: str) -> None:
    (finding,) = told(value).findings
    assert (finding.code, finding.severity) == ("hccl-interface.bad-value", ERROR)
    assert said in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == ("export HCCL_IF_IP=192.0.2.1",)  # which goes to the master


@pytest.mark.parametrize("value", ["“192.0.2.1”", " 192.0.2.1", "192.0.2.1;", "192.0.2.１", "'192.0.2.1'"])
def test_pasted_from_a_document(value: str) -> None:
    (finding,) = told(value).findings
    assert (finding.code, finding.severity) == ("hccl-interface.pasted-punctuation", ERROR)
    assert finding.fix is not None
    assert finding.fix.commands == ("export HCCL_IF_IP=192.0.2.1",)


@pytest.mark.parametrize(
    ("value", "variables", "code", "severity"),
    [
        ("192.0.2.77", SEVERAL, "not-ours", ERROR),
        ("0.0.0.0", SEVERAL, "not-ours", ERROR),  # noqa: S104
        ("192.0.2.1%data0", SEVERAL, "not-ours", ERROR),
        ("fe80::2%eth0", SEVERAL, "not-ours", ERROR),
        ("203.0.113.1", SEVERAL, "down", ERROR),
        ("192.168.7.1", SEVERAL, "down", ERROR),
        ("192.168.7.1", ALONE, "down", WARNING),
        ("127.0.0.1", SEVERAL, "inner", ERROR),
        ("172.17.0.1", SEVERAL, "inner", WARNING),
        ("172.17.0.1", ALONE, "inner", INFO),
        ("198.51.100.1", SEVERAL, "other-way", WARNING),
        ("2001:db8::1", {"MASTER_ADDR": "fd00::9"}, None, None),  # the default way
        ("192.0.2.1", {**SEVERAL, "HCCL_SOCKET_IFNAME": "data0"}, "wins", INFO),
    ],
)
def test_addresses_that_do_not_do(
    value: str, variables: dict[str, str], code: Optional[str], severity: Optional[Severity]
) -> None:
    found = [(one.code, one.severity) for one in told(value, variables).findings]
    assert found == ([(f"hccl-interface.{code}", severity)] if code else [])


def test_no_way_to_the_master() -> None:
    host = machine({NAME: "192.0.2.1", **SEVERAL})
    there = list(host.network.interfaces())
    host._parts["network"] = Network(lambda: there, lambda *_asked: None)
    (finding,) = ask(hccl_interface, host).findings
    assert (finding.code, finding.severity) == ("hccl-interface.no-way", WARNING)


def test_the_lines() -> None:
    (finding,) = told("198.51.100.1").findings
    assert finding.fix is not None
    assert finding.fix.commands == ("export HCCL_IF_IP=192.0.2.1",)
    assert finding.fix.undo == ("export HCCL_IF_IP=198.51.100.1",)
    (finding,) = told("192.168.7.1").findings
    assert finding.fix is not None
    assert finding.fix.commands == ("ip link set dev off0 up",)
    assert finding.fix.undo_commands == ("ip link set dev off0 down",)
    assert (finding.fix.risk, finding.fix.needs_root) == (Risk.CAUTION, True)
    (finding,) = told("192.0.2.77", {}).findings
    assert finding.fix is not None
    assert finding.fix.commands == ("unset HCCL_IF_IP",)  # several could be meant


def test_a_whole_file_in_a_variable_is_shown_in_part() -> None:
    (finding,) = told("x" * 100_000).findings
    assert len(finding.message) + sum(map(len, finding.evidence)) < 1000


def test_on_a_login_node_it_is_information() -> None:
    asked = told("192.0.2.77", npus=0)
    assert [one.severity for one in asked.findings] == [INFO]
    assert told("198.51.100.1", npus=0).status is Status.OK


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("value", "codes"),
    [
        ("192.0.2.1", []),
        ("192.0.2.3", []),  # of the label eth0:1
        ("192.0.2.77", ["not-ours"]),
        ("203.0.113.1", ["down"]),
        ("192.168.7.1", ["down"]),
        ("172.17.0.1", ["inner"]),
        ("127.0.0.1", ["inner"]),
        ("198.51.100.1", ["other-way"]),
        ("", ["bad-value"]),
    ],
)
def test_real_interfaces(value: str, codes: list[str], need: Callable[..., None]) -> None:
    need("unshare", "ip")
    answer = ask_within("hccl_interface", "hccl_interface", {**SEVERAL, NAME: value})
    assert [one[0] for one in answer["findings"]] == [f"hccl-interface.{code}" for code in codes]


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("more", "codes"),
    [
        # A rule about the source sends what comes from data0's address by data0.
        ("ip rule add from 198.51.100.1 table 7; ip route add default via 198.51.100.254 table 7", []),
        ("ip rule add from 198.51.100.1 prohibit", ["no-way"]),
        ("ip addr add 192.0.2.5/24 dev data0", ["other-way"]),
    ],
)
def test_real_rules(more: str, codes: list[str], need: Callable[..., None]) -> None:
    need("unshare", "ip")
    variables = {**SEVERAL, NAME: "198.51.100.1"}
    answer = ask_within("hccl_interface", "hccl_interface", variables, more=more)
    assert [one[0] for one in answer["findings"]] == [f"hccl-interface.{code}" for code in codes]


@pytest.mark.needs_root
def test_two_interfaces_in_the_masters_network(need: Callable[..., None]) -> None:
    need("unshare", "ip")
    more = "ip addr add 192.0.2.5/24 dev data0"
    answer = ask_within("hccl_interface", "hccl_interface", {**SEVERAL, NAME: "192.0.2.5"}, more=more)
    assert [one[:2] for one in answer["findings"]] == [["hccl-interface.other-way", "INFO"]]


SCENE_SEVERAL = {"MASTER_ADDR": "192.0.2.9"}
VALUES = (
    "",
    "192.0.2.1 172.17.0.1",
    "eth0",
    "“192.0.2.1”",
    "192.0.2.77",
    "192.168.7.1",
    "172.17.0.1",
    "198.51.100.1",
)


def scene(tmp: Path) -> Iterator[Asked]:
    """Every code."""
    there = [
        interface("lo", "127.0.0.1/8"),
        interface("eth0", "192.0.2.1/24"),
        interface("data0", "198.51.100.1/24"),
        interface("off0", "192.168.7.1/24", up=False),
        interface("docker0", "172.17.0.1/16"),
    ]
    for value in VALUES:
        given = {**SCENE_SEVERAL, "HCCL_IF_IP": value}
        yield ask(check, fake_host(variables=given, network=FakeNetwork(there), expect="npu"))
    given = {**SCENE_SEVERAL, "HCCL_IF_IP": "192.0.2.1", "HCCL_SOCKET_IFNAME": "data0"}
    nowhere = Network(lambda: there, lambda *_asked: None)
    yield ask(check, fake_host(variables=given, network=nowhere, expect="npu"))
    yield ask(check, fake_host({"/dev/nvidia0": device()}, variables=given))
    yield ask(check, fake_host())
