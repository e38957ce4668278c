"""socket-interfaces: the names as each library reads them, against the interfaces that there are."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from tests.checks.network.interfaces_machine import ask_within, machine

from npudoctor import Risk, Severity, Status, Unknown
from npudoctor.checks.network.socket_interfaces import socket_interfaces
from npudoctor.checks.network.socket_interfaces import socket_interfaces as check
from npudoctor.facts.job.interface_names import default_order, read_names
from npudoctor.host.network.network import Network
from npudoctor.testing import Asked, Content, FakeNetwork, ask, device, fake_host, interface

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
HCCL, GLOO, TENSORPIPE, NCCL = (f"{one}_SOCKET_IFNAME" for one in ("HCCL", "GLOO", "TP", "NCCL"))
SEVERAL = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "192.0.2.9"}
ALONE = {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}


def told(variables: dict[str, str], **more: Any) -> Asked:
    return ask(socket_interfaces, machine(variables, **more))


@pytest.mark.parametrize(
    ("name", "value", "chosen"),
    [
        (HCCL, "=eth0", ["eth0"]),
        (HCCL, "eth1", ["eth10"]),
        (HCCL, "nothing,data", ["data0"]),
        (HCCL, "=eth0,data0", ["eth0", "data0"]),
        (HCCL, "^docker,lo,eth1", ["eth0", "data0"]),
        (HCCL, "^=docker0,lo,eth0,eth10", ["data0"]),
        (GLOO, "eth0", ["eth0"]),
        (GLOO, "eth0,data0", ["eth0", "data0"]),
        (TENSORPIPE, "eth0", ["eth0"]),
    ],
)
def test_quiet_when_well(name: str, value: str, chosen: list[str]) -> None:
    asked = told({**SEVERAL, "HCCL_IF_IP": "192.0.2.1", name: value})
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["interfaces"] == {name: chosen}


def test_the_interface_that_is_there_is_named() -> None:
    network = FakeNetwork(
        [interface("lo", "127.0.0.1/8", state="unknown"), interface("ens1", "192.0.2.1/24")]
    )
    files: dict[str, Content] = {"/dev/davinci0": device()}
    variables = {**SEVERAL, HCCL: "gone0"}
    (finding,) = ask(check, fake_host(files, variables=variables, network=network)).findings
    assert (finding.code, finding.severity) == ("socket-interfaces.missing", ERROR)
    assert finding.fix is not None
    assert finding.fix.commands == ("export HCCL_SOCKET_IFNAME=ens1",)
    (finding,) = told(variables).findings
    assert finding.fix is not None and finding.fix.commands == ()
    assert "one of eth0, eth10, data0" in finding.fix.title


def test_facts_name_what_hccl_takes_and_its_mtu() -> None:
    asked = told({})
    assert asked.status is Status.SKIPPED
    assert asked.facts == {"interfaces": {}, "hccl_default": "data0", "mtu": {"data0": 1500}}
    asked = told({HCCL: "=eth0"})
    assert asked.facts == {"interfaces": {HCCL: ["eth0"]}, "hccl_default": None, "mtu": {"eth0": 9000}}


@pytest.mark.parametrize(
    "variables",
    [
        {GLOO: "lo"},  # a job on one node
        {HCCL: "lo", GLOO: "lo", **ALONE},
        {GLOO: "", TENSORPIPE: "", HCCL: "=eth0"},
        {NCCL: "ib0", GLOO: "eth0"},  # no GPU here
        {**SEVERAL, HCCL: "=eth0", GLOO: "eth0", TENSORPIPE: "eth0"},
        {**ALONE, HCCL: "=eth0", GLOO: "lo"},
    ],
)
def test_quiet_in_these_too(variables: dict[str, str]) -> None:
    assert told(variables).codes == []


@pytest.mark.parametrize("variables", [{}, {"HCCL_IF_IP": "192.0.2.1"}, {"MASTER_ADDR": "192.0.2.9"}])
def test_skipped_where_nothing_is_named(variables: dict[str, str]) -> None:
    assert told(variables, npus=0).status is Status.SKIPPED


def test_skipped_in_an_image() -> None:
    asked = ask(socket_interfaces, fake_host(root="/image", variables={HCCL: "eth9"}))
    assert asked.status is Status.SKIPPED


def test_cannot_tell_where_the_kernel_is_silent() -> None:
    def silent() -> list[Any]:
        raise Unknown("the kernel cannot be asked")

    host = fake_host(variables={HCCL: "eth0"}, expect="npu", network=None)
    host._parts["network"] = Network(silent)
    assert ask(socket_interfaces, host).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("value", "severity"),
    [("eth0,", ERROR), (",eth0", ERROR), ("=", ERROR), ("^", ERROR), ("eth0,,eth1", ERROR), ("", WARNING)],
)
def test_what_hccl_refuses(value: str, severity: Severity) -> None:
    (finding,) = told({HCCL: value}).findings
    assert (finding.code, finding.severity) == ("socket-interfaces.bad-value", severity)
    assert finding.fix is not None
    assert finding.fix.commands == (f"unset {HCCL}",)


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        (HCCL, "“eth0”", "eth0"),
        (HCCL, " =eth0", "=eth0"),
        (HCCL, "nothing, data0", "nothing,data0"),
        (GLOO, "'eth0'", "eth0"),
        (GLOO, "eth0;", "eth0"),
        (GLOO, "eth0, data0", "eth0,data0"),
        (GLOO, "eth0，data0", "eth0,data0"),
        (TENSORPIPE, "ｅｔｈ０", "eth0"),
    ],
)
def test_pasted_from_a_document(name: str, value: str, meant: str) -> None:
    (finding,) = told({name: value}).findings
    assert finding.code == "socket-interfaces.pasted-punctuation"
    assert finding.fix is not None
    assert shlex.split(finding.fix.commands[0]) == ["export", f"{name}={meant}"]


@pytest.mark.parametrize(
    ("name", "value", "severity", "said"),
    [
        (HCCL, "bond4", ERROR, "matches no interface"),
        (HCCL, "=eth", ERROR, "matches no interface"),
        (HCCL, "=bond4,=eth0", ERROR, "matches no interface"),
        (GLOO, "eth", ERROR, "this machine has no interface eth"),
        (GLOO, "=eth0", ERROR, "exact names only"),
        (GLOO, "^docker", ERROR, "exact names only"),
        (GLOO, "eth0,bond4", ERROR, "this machine has no interface bond4"),
        (TENSORPIPE, "eth0,data0", WARNING, "this machine has no interface eth0,data0"),
    ],
)
def test_an_interface_that_is_not_here(name: str, value: str, severity: Severity, said: str) -> None:
    (finding,) = told({name: value}).findings
    assert (finding.code, finding.severity) == ("socket-interfaces.missing", severity)
    assert said in finding.message
    assert any(line.startswith("eth0: up, 192.0.2.1/24") for line in finding.evidence)


@pytest.mark.parametrize(
    ("variables", "code", "severity"),
    [
        ({**SEVERAL, HCCL: "off"}, "down", ERROR),
        ({**ALONE, HCCL: "off"}, "down", WARNING),
        ({**SEVERAL, HCCL: "=tired0"}, "down", ERROR),
        ({**SEVERAL, GLOO: "eth0,tired0"}, "down", ERROR),
        ({**SEVERAL, HCCL: "tired0,off0"}, "down", ERROR),
        ({**SEVERAL, HCCL: "bare0"}, "no-address", ERROR),
        ({**SEVERAL, GLOO: "bare0"}, "no-address", ERROR),
        ({**SEVERAL, TENSORPIPE: "bare0"}, "no-address", WARNING),
        ({**ALONE, GLOO: "bare0"}, "no-address", INFO),
        ({**ALONE, HCCL: "bare0"}, "no-address", ERROR),
        ({**SEVERAL, HCCL: "docker"}, "inner", WARNING),
        ({**SEVERAL, GLOO: "lo"}, "inner", WARNING),
        ({**ALONE, HCCL: "docker0"}, "inner", INFO),
        ({HCCL: "eth0", "MASTER_ADDR": "192.0.2.1"}, None, None),  # eth0x is down
        ({HCCL: "bond4", "HCCL_IF_IP": "192.0.2.1"}, "missing", INFO),
    ],
)
def test_interfaces_that_do_not_do(
    variables: dict[str, str], code: Optional[str], severity: Optional[Severity]
) -> None:
    other = {} if HCCL in variables else {HCCL: "=eth0"}
    found = [(one.code, one.severity) for one in told({**variables, **other}).findings]
    found = [one for one in found if one[0] != "socket-interfaces.differ"]
    assert found == ([(f"socket-interfaces.{code}", severity)] if code else [])


def test_one_that_is_switched_off_can_be_switched_on() -> None:
    (finding,) = told({**SEVERAL, HCCL: "off0"}).findings
    assert finding.fix is not None
    assert finding.fix.commands == ("ip link set dev off0 up",)
    assert finding.fix.undo_commands == ("ip link set dev off0 down",)
    assert (finding.fix.risk, finding.fix.needs_root) == (Risk.CAUTION, True)
    assert finding.fix.needs_root
    (finding,) = told({**SEVERAL, HCCL: "tired0"}).findings
    assert finding.fix is not None and finding.fix.commands == ()  # it has no carrier


def test_a_name_that_is_the_beginning_of_another() -> None:
    host = machine({HCCL: "eth1"})
    there = [interface("eth1", "192.0.2.1/24"), interface("eth1.100", "192.0.3.1/24"), interface("lo")]
    host._parts["network"] = Network(lambda: there)
    (finding,) = ask(socket_interfaces, host).findings
    assert finding.code == "socket-interfaces.ambiguous"
    assert finding.fix is not None
    assert finding.fix.commands == (f"export {HCCL}='=eth1'",)


def test_nccl_is_judged_where_a_gpu_is() -> None:
    (finding,) = told({NCCL: "bond4"}, npus=0, gpus=8).findings
    assert (finding.code, finding.severity) == ("socket-interfaces.missing", WARNING)
    assert told({HCCL: "bond4"}, npus=0, gpus=8).status is Status.SKIPPED


@pytest.mark.parametrize("name", [HCCL, GLOO])
def test_a_whole_file_in_a_variable_is_shown_in_part(name: str) -> None:
    for finding in told({name: "x," * 50_000}).findings:
        assert len(finding.message) + sum(map(len, finding.evidence)) < 2000


def test_on_a_login_node_it_is_information() -> None:
    """The variables are for the nodes where the job will run."""
    asked = told({**SEVERAL, HCCL: "bond4", GLOO: "bond4"}, npus=0)
    assert (asked.status, len(asked.findings)) == (Status.OK, 2)
    assert {one.severity for one in asked.findings} == {INFO}


@pytest.mark.parametrize(
    ("variables", "speaks"),
    [
        ({**SEVERAL, HCCL: "=eth0", GLOO: "data0"}, True),
        ({**SEVERAL, HCCL: "=eth0,data0", GLOO: "data0"}, False),
        ({**ALONE, HCCL: "=eth0", GLOO: "data0"}, False),
    ],
)
def test_one_interface_for_all(variables: dict[str, str], speaks: bool) -> None:
    assert told(variables).codes == (["socket-interfaces.differ"] if speaks else [])


@pytest.mark.parametrize(
    ("variables", "peers", "speaks"),
    [
        (SEVERAL, (), True),  # data0 is before eth0
        ({"MASTER_ADDR": "head"}, (), True),
        ({"MASTER_ADDR": "far"}, (), True),
        ({}, ("198.51.100.7",), False),
        ({}, ("192.0.2.9",), True),
        ({"MASTER_ADDR": "192.0.2.1"}, (), False),
        ({"MASTER_ADDR": "nobody-knows"}, (), False),
        (ALONE, (), False),
        ({**SEVERAL, "HCCL_IF_IP": "192.0.2.1"}, (), False),
    ],
)
def test_what_hccl_takes_unasked(variables: dict[str, str], peers: tuple[str, ...], speaks: bool) -> None:
    asked = told(variables, peers=peers, names={"far": "192.0.2.9", "head": "192.0.2.9"})
    assert asked.codes == (["socket-interfaces.unset"] if speaks else [])
    for finding in asked.findings:
        assert finding.fix is not None
        assert finding.fix.commands == (f"export {HCCL}='=eth0'",)


def test_the_order_of_hccl() -> None:
    names = ["lo", "docker0", "eth1", "bond0"]
    there = [interface(name, "192.0.2.1/24") for name in names]
    assert [one.name for one in default_order(there)] == ["bond0", "eth1", "docker0", "lo"]


def test_grammar() -> None:
    assert read_names(HCCL, "^=a,b").names == ("a", "b")
    assert read_names(HCCL, "^=a,b").takes("c") and not read_names(HCCL, "^=a,b").takes("a")
    assert read_names(NCCL, "^").names == ()
    assert not read_names(HCCL, "=^a").takes("b")  # only the front of the value has marks


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("variables", "codes"),
    [
        ({HCCL: "=eth0", GLOO: "eth0"}, []),
        ({HCCL: "=eth0:1"}, []),  # as getifaddrs() calls it
        ({HCCL: "data"}, []),
        ({HCCL: "eth0"}, []),
        ({HCCL: "tired"}, ["down"]),
        ({HCCL: "off0"}, ["down"]),
        ({HCCL: "bare0"}, ["no-address"]),
        ({HCCL: "docker"}, ["inner"]),
        ({HCCL: "lo", GLOO: "lo"}, ["inner", "inner"]),
        ({HCCL: "bond", GLOO: "eth"}, ["missing", "missing"]),
        ({HCCL: "=eth0", GLOO: "data0"}, ["differ"]),
        ({}, ["unset"]),
    ],
)
def test_real_interfaces(variables: dict[str, str], codes: list[str], need: Callable[..., None]) -> None:
    need("unshare", "ip")
    answer = ask_within("socket_interfaces", "socket_interfaces", {**SEVERAL, **variables})
    assert [one[0] for one in answer["findings"]] == [f"socket-interfaces.{code}" for code in codes]


@pytest.mark.needs_root
def test_the_line_that_switches_it_on_does(need: Callable[..., None]) -> None:
    need("unshare", "ip")
    answer = ask_within(
        "socket_interfaces", "socket_interfaces", {**SEVERAL, HCCL: "off0"}, more="ip link set off0 up"
    )
    assert answer["findings"] == []


SCENE_SEVERAL = {"MASTER_ADDR": "192.0.2.9"}
HCCL, GLOO = "HCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"
VARIABLES: tuple[dict[str, str], ...] = (
    {HCCL: "eth0,"},
    {HCCL: "“eth0”", GLOO: "=eth0"},
    {HCCL: "bond0", GLOO: "bond0"},
    {HCCL: "off0"},
    {HCCL: "bare0"},
    {HCCL: "docker0"},
    {HCCL: "eth0"},
    {HCCL: "=eth0", GLOO: "data0"},
    {},
)


def scene(tmp: Path) -> Iterator[Asked]:
    """Every code."""
    there = [
        interface("lo", "127.0.0.1/8"),
        interface("eth0", "192.0.2.1/24"),
        interface("eth0.100", "192.0.3.1/24"),
        interface("data0", "198.51.100.1/24"),
        interface("bare0"),
        interface("off0", "192.168.7.1/24", up=False),
        interface("docker0", "172.17.0.1/16"),
    ]
    for variables in VARIABLES:
        network = FakeNetwork(there)
        yield ask(check, fake_host(variables={**SCENE_SEVERAL, **variables}, network=network, expect="npu"))
    yield ask(check, fake_host())
