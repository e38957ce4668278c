"""hccl-env: what HCCL refuses, what it takes, and what goes together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest

from npudoctor import Risk, Severity, Status
from npudoctor.checks.network.hccl_env import hccl_env
from npudoctor.checks.network.hccl_env import hccl_env as check
from npudoctor.knowledge import tables
from npudoctor.knowledge.hccl import algorithms, chip_of, what_is_wrong
from npudoctor.testing import Asked, Content, ask, device, fake_host, unreadable

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
CARD = "/sys/bus/pci/devices/0000:c1:00.0"
IDS = {"910": "0xd801", "A2": "0xd802", "A3": "0xd803", "310P": "0xd500", "950": "0xd806"}
ROWS = tables.table("hccl_variables")["variable"]


def machine(chip: str) -> dict[str, Content]:
    if not chip:
        return {}
    rest = {"vendor": "0x19e5\n", "device": f"{IDS[chip]}\n", "class": "0x120000\n"}
    return {"/dev/davinci0": device(), **{f"{CARD}/{name}": text for name, text in rest.items()}}


def told(chip: str = "A2", files: Optional[dict[str, Content]] = None, /, **variables: str) -> Asked:
    return ask(hccl_env, fake_host({**machine(chip), **(files or {})}, variables=variables))


@pytest.mark.parametrize(
    "variables",
    [
        {"HCCL_CONNECT_TIMEOUT": "120", "HCCL_EXEC_TIMEOUT": "1836", "HCCL_EVENT_TIMEOUT": "1868"},
        {"HCCL_CONNECT_TIMEOUT": "7200"},
        {"HCCL_EXEC_TIMEOUT": "0", "HCCL_EVENT_TIMEOUT": "1868"},  # never, on A2
        {"HCCL_EXEC_TIMEOUT": "1800.25"},
        {"HCCL_WHITELIST_DISABLE": "1"},
        {"HCCL_BUFFSIZE": "1024", "HCCL_RDMA_SL": "0", "HCCL_RDMA_TC": "0", "HCCL_RDMA_TIMEOUT": "20"},
        {"HCCL_INTRA_PCIE_ENABLE": "1", "HCCL_INTRA_ROCE_ENABLE": "0"},
        {"HCCL_INTRA_PCIE_ENABLE": "0", "HCCL_INTRA_ROCE_ENABLE": "1"},
        {"HCCL_INTRA_PCIE_ENABLE": "0", "HCCL_INTRA_ROCE_ENABLE": "0"},
        {"HCCL_INTRA_PCIE_ENABLE": "1"},
        {"HCCL_INTRA_ROCE_ENABLE": "1"},
        {"HCCL_DETERMINISTIC": "TRUE", "HCCL_INTER_HCCS_DISABLE": "True"},
        {"HCCL_ALGO": "level0:NA;level1:H-D_R"},
        {"HCCL_ALGO": "level0:NA;level1:NHR;level2:ring;"},
        {"HCCL_ALGO": "allgather=level0:NA;level1:NHR/alltoall=level0:NA;level1:pairwise"},
        {"HCCL_OP_EXPANSION_MODE": "AIV", "HCCL_DETERMINISTIC": "false"},
        {"HCCL_OP_RETRY_ENABLE": "L1:1, L2:1"},
        {"HCCL_OP_RETRY_ENABLE": "", "HCCL_ALGO": "", "HCCL_WHITELIST_FILE": ""},
        {"HCCL_SOCKET_FAMILY": "AF_INET6", "HCCL_SOCKET_IFNAME": "eth0"},
        {"HCCL_NPU_SOCKET_PORT_RANGE": "auto", "HCCL_IF_BASE_PORT": "not ours to judge"},
        {"CM_CHIEF_IP": "192.0.2.1", "CM_CHIEF_PORT": "6000", "CM_WORKER_SIZE": "8", "CM_CHIEF_DEVICE": "0"},
        {"HCCL_ASYNC_ERROR_HANDLING": "0", "HCCL_DFS_CONFIG": "x", "HCCL_RDMA_QOS": "1"},
    ],
)
def test_quiet_when_well(variables: dict[str, str]) -> None:
    asked = told(**variables)
    assert (asked.status, asked.codes) == (Status.OK, [])


@pytest.mark.parametrize("variables", [{}, {"NCCL_DEBUG": "INFO"}, {"WORLD_SIZE": "1"}])
def test_skipped_without_any(variables: dict[str, str]) -> None:
    assert told(**variables).status is Status.SKIPPED


def test_skipped_where_only_gpus_are() -> None:
    host = fake_host({"/dev/nvidia0": device()}, variables={"HCCL_BUFFSIZE": "0"})
    assert ask(hccl_env, host).status is Status.SKIPPED


def test_skipped_in_an_image() -> None:
    asked = ask(hccl_env, fake_host(root="/image", variables={"HCCL_BUFFSIZE": "0"}))
    assert asked.status is Status.SKIPPED


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("HCCL_CONNECT_TIMEOUT", "60", "export HCCL_CONNECT_TIMEOUT=120"),
        ("HCCL_CONNECT_TIMEOUT", "86400", "export HCCL_CONNECT_TIMEOUT=7200"),
        ("HCCL_CONNECT_TIMEOUT", "10m", "unset HCCL_CONNECT_TIMEOUT"),
        ("HCCL_CONNECT_TIMEOUT", "-120", "unset HCCL_CONNECT_TIMEOUT"),
        ("HCCL_CONNECT_TIMEOUT", "00000000600", "export HCCL_CONNECT_TIMEOUT=600"),  # too long to be read
        ("HCCL_EXEC_TIMEOUT", "1800.125", "unset HCCL_EXEC_TIMEOUT"),
        ("HCCL_EXEC_TIMEOUT", "9999999999", "export HCCL_EXEC_TIMEOUT=2147483647"),
        ("HCCL_BUFFSIZE", "0", "export HCCL_BUFFSIZE=1"),
        ("HCCL_RDMA_TC", "133", "export HCCL_RDMA_TC=132"),
        ("HCCL_RDMA_TC", "256", "export HCCL_RDMA_TC=252"),
        ("HCCL_RDMA_TIMEOUT", "24", "export HCCL_RDMA_TIMEOUT=20"),
        ("HCCL_RDMA_RETRY_CNT", "0", "export HCCL_RDMA_RETRY_CNT=1"),
        ("HCCL_WHITELIST_DISABLE", "true", "unset HCCL_WHITELIST_DISABLE"),
        ("HCCL_DETERMINISTIC", "1", "unset HCCL_DETERMINISTIC"),
        ("HCCL_SOCKET_FAMILY", "af_inet", "unset HCCL_SOCKET_FAMILY"),
        ("HCCL_NPU_SOCKET_PORT_RANGE", "61000-60000", "unset HCCL_NPU_SOCKET_PORT_RANGE"),
        ("HCCL_OP_RETRY_ENABLE", "L1:1,L1:0", "unset HCCL_OP_RETRY_ENABLE"),
        ("HCCL_OP_RETRY_ENABLE", "1", "unset HCCL_OP_RETRY_ENABLE"),
    ],
)
def test_what_hccl_refuses(name: str, value: str, line: str) -> None:
    (finding,) = told(**{name: value}).findings
    assert (finding.code, finding.severity) == ("hccl-env.bad-value", ERROR)
    assert "EI0001" in finding.message
    assert finding.evidence[0] == f"{name}={value}"
    assert finding.fix is not None
    assert finding.fix.commands == (line,)
    assert finding.fix.undo == (f"export {name}={value}",)
    assert (finding.fix.risk, finding.fix.needs_root) == (Risk.MANUAL, False)


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("HCCL_CONNECT_TIMEOUT", "“600”", "600"),
        ("HCCL_CONNECT_TIMEOUT", "６００", "600"),
        ("HCCL_CONNECT_TIMEOUT", "600;", "600"),
        ("HCCL_CONNECT_TIMEOUT", "600\u200b", "600"),
        ("HCCL_CONNECT_TIMEOUT", " 600", "600"),
        ("HCCL_WHITELIST_DISABLE", "'1'", "1"),
        ("HCCL_SOCKET_FAMILY", "“AF_INET”", "AF_INET"),
        ("HCCL_INTRA_ROCE_ENABLE", "1，", "1"),
    ],
)
def test_pasted_from_a_document(name: str, value: str, meant: str) -> None:
    (finding,) = told(**{name: value}).findings
    assert (finding.code, finding.severity) == ("hccl-env.pasted-punctuation", ERROR)
    assert finding.fix is not None
    assert finding.fix.commands == (f"export {name}={meant}",)


@pytest.mark.parametrize(
    ("chip", "name", "value", "severity"),
    [
        ("910", "HCCL_EXEC_TIMEOUT", "0", ERROR),
        ("310P", "HCCL_EXEC_TIMEOUT", "17341", ERROR),
        ("910", "HCCL_RDMA_TIMEOUT", "25", ERROR),
        ("950", "HCCL_OP_EXPANSION_MODE", "HOST", ERROR),
        ("910", "HCCL_DETERMINISTIC", "strict", ERROR),
        ("A3", "HCCL_OP_EXPANSION_MODE", "HOST", INFO),
        ("A2", "HCCL_OP_EXPANSION_MODE", "CCU_MS", INFO),
        ("A2", "HCCL_OP_EXPANSION_MODE", "fast", WARNING),
        ("950", "HCCL_ALGO", "level0:NA;level1:ring", INFO),
        ("A2", "HCCL_ALGO", "level0:NA;level1:best", INFO),
        ("A2", "HCCL_ALGO", "level0:ring;level1:ring", INFO),
        ("A2", "HCCL_ALGO", "ring", WARNING),
        ("A2", "HCCL_EVENT_TIMEOUT", "many", WARNING),
        ("A2", "CM_CHIEF_PORT", "65521", WARNING),
        ("A2", "CM_CHIEF_IP", "head", WARNING),
        ("A2", "HCCL_BUFFSIZE", "", WARNING),
    ],
)
def test_it_depends_on_chip_and_reader(chip: str, name: str, value: str, severity: Severity) -> None:
    (finding,) = (one for one in told(chip, **{name: value}).findings if one.code == "hccl-env.bad-value")
    assert finding.severity is severity


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HCCL_EXEC_TIMEOUT", "0"),
        ("HCCL_RDMA_TIMEOUT", "31"),
        ("HCCL_DETERMINISTIC", "strict"),
        ("HCCL_OP_EXPANSION_MODE", "CCU_MS"),
    ],
)
def test_an_unknown_chip_is_given_the_benefit_of_the_doubt(name: str, value: str) -> None:
    assert told("", **{name: value}).codes == []


@pytest.mark.parametrize(("pcie", "roce"), [("1", "1"), ("0", None), (None, "0"), ("01", "1")])
def test_pairs_that_hccl_refuses(pcie: Optional[str], roce: Optional[str]) -> None:
    given = {"HCCL_INTRA_PCIE_ENABLE": pcie, "HCCL_INTRA_ROCE_ENABLE": roce}
    variables = {name: value for name, value in given.items() if value is not None}
    (finding,) = told(**variables).findings
    assert finding.code == "hccl-env.unsupported-pair"
    assert finding.fix is not None
    assert finding.fix.commands == tuple(f"unset {name}" for name in variables)


def test_a_bad_value_is_not_a_bad_pair_too() -> None:
    assert told(HCCL_INTRA_PCIE_ENABLE="0", HCCL_INTRA_ROCE_ENABLE="no").codes == ["hccl-env.bad-value"]


@pytest.mark.parametrize(
    ("variables", "severities"),
    [
        ({"HCCL_EXEC_TIMEOUT": "7200", "HCCL_EVENT_TIMEOUT": "1800"}, [WARNING]),
        ({"HCCL_EXEC_TIMEOUT": "7200", "HCCL_EVENT_TIMEOUT": "7200"}, [INFO]),
        ({"HCCL_CONNECT_TIMEOUT": "7200", "HCCL_EXEC_TIMEOUT": "1800"}, [INFO]),
        ({"HCCL_CONNECT_TIMEOUT": "7200", "HCCL_EVENT_TIMEOUT": "1800"}, [INFO]),
        ({"HCCL_EXEC_TIMEOUT": "7200", "HCCL_EVENT_TIMEOUT": "0"}, []),
        ({"HCCL_CONNECT_TIMEOUT": "7200", "HCCL_EXEC_TIMEOUT": "7200"}, []),
    ],
)
def test_the_order_of_the_limits(variables: dict[str, str], severities: list[Severity]) -> None:
    asked = told(**variables)
    assert [one.severity for one in asked.findings] == severities
    assert set(asked.codes) <= {"hccl-env.timeout-order"}


def test_the_line_that_restores_the_order() -> None:
    (finding,) = told(HCCL_EXEC_TIMEOUT="7200", HCCL_EVENT_TIMEOUT="1800").findings
    assert finding.fix is not None
    assert finding.fix.commands == ("export HCCL_EVENT_TIMEOUT=7232",)
    (finding,) = told(HCCL_EXEC_TIMEOUT="2147483647", HCCL_EVENT_TIMEOUT="2147483647").findings
    assert finding.fix is None  # there is no longer one
    (finding,) = told(HCCL_CONNECT_TIMEOUT="7200", HCCL_EXEC_TIMEOUT="1800").findings
    assert finding.fix is None  # which of them was meant?


@pytest.mark.parametrize("other", ["RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE"])
def test_two_ways_of_telling_the_ranks(other: str) -> None:
    (finding,) = told(CM_CHIEF_IP="192.0.2.1", **{other: "1"}).findings
    assert finding.code == "hccl-env.conflict"
    assert other in finding.message


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("", None, "HCCL_WHITELIST_FILE is not set"),
        ("/etc/white.json", None, "does not exist"),
        ("/etc/white.json", "{", "is not JSON"),
        ("/etc/white.json", '{"host_ip": ["192.0.2.1"]}', ""),
        ("/etc/white.json", unreadable(), ""),
        ("white.json", None, ""),
    ],
)
def test_a_whitelist_needs_its_file(file: str, content: Optional[Content], said: str) -> None:
    files = {file: content} if content is not None else {}
    variables = {"HCCL_WHITELIST_DISABLE": "0", **({"HCCL_WHITELIST_FILE": file} if file else {})}
    asked = told("A2", files, **variables)
    assert asked.codes == (["hccl-env.whitelist"] if said else [])
    assert said in "".join(one.message for one in asked.findings)


@pytest.mark.parametrize(("version", "speaks"), [("5.1.0", True), ("6.0.1", False), ("8.1.RC1", False)])
def test_the_default_of_the_whitelist_is_of_an_era(version: str, speaks: bool) -> None:
    root = "/usr/local/Ascend/ascend-toolkit/latest"
    info = f"package_name=Ascend-cann-toolkit\nversion={version}\narch=x86_64\n"
    files: dict[str, Content] = {
        f"{root}/runtime/version.info": "Version=1.81\n",
        f"{root}/x86_64-linux/ascend_toolkit_install.info": info,
    }
    asked = told("910", files, WORLD_SIZE="8", MASTER_ADDR="192.0.2.1")
    assert asked.codes == (["hccl-env.whitelist"] if speaks else [])


@pytest.mark.parametrize(
    ("chip", "variables"),
    [
        ("910", {"HCCL_OP_EXPANSION_MODE": "AIV"}),
        ("310P", {"HCCL_ALGO": "level0:NA;level1:ring"}),
        ("910", {"HCCL_NPU_SOCKET_PORT_RANGE": "61000-61050"}),
        ("A2", {"HCCL_SOCKET_FAMILY": "AF_INET6"}),
        ("A2", {"HCCL_WHITELIST_FILE": "/etc/white.json"}),
        ("A2", {"HCCL_IF_BASE_PORT": "60000", "HCCL_HOST_SOCKET_PORT_RANGE": "61000-61050"}),
        ("A2", {"HCCL_OP_EXPANSION_MODE": "AIV", "HCCL_DETERMINISTIC": "strict"}),
        ("A2", {"HCCL_OP_RETRY_ENABLE": "L0:1"}),
        ("A3", {"HCCL_ALGO": "level0:NA;level1:AHC;level2:ring"}),
    ],
)
def test_no_effect(chip: str, variables: dict[str, str]) -> None:
    asked = told(chip, **variables)
    assert (asked.status, asked.codes) == (Status.OK, ["hccl-env.no-effect"])


@pytest.mark.parametrize(
    ("chip", "name", "value"),
    [("A2", "HCCL_ALGO", "level0:NA;level1:NHR_V1"), ("950", "HCCL_OP_EXPANSION_MODE", "AI_CPU")],
)
def test_what_is_to_go(chip: str, name: str, value: str) -> None:
    assert told(chip, **{name: value}).codes == ["hccl-env.deprecated"]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("HCCL_CONNECT_TIME_OUT", "HCCL_CONNECT_TIMEOUT"),
        ("HCCL_WHITELIST_DISABLED", "HCCL_WHITELIST_DISABLE"),
        ("HCCL_BUFFER_SIZE", "HCCL_BUFFSIZE"),
        ("HCCL_SOCKET_IFNAMES", "HCCL_SOCKET_IFNAME"),
    ],
)
def test_a_misspelt_name(name: str, known: str) -> None:
    (finding,) = told(**{name: "1"}).findings
    assert finding.code == "hccl-env.misspelt"
    assert finding.fix is not None
    assert finding.fix.commands == (f"unset {name}", f"export {known}=1")


def test_a_whole_file_in_a_variable_is_shown_in_part() -> None:
    (finding,) = told(HCCL_BUFFSIZE="7" * 100_000).findings
    assert len(finding.message) < 500


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["name"]))
def test_each_row_can_be_judged(row: dict[str, object]) -> None:
    assert row["source"] and row["as_of"]
    if row["default"]:
        assert what_is_wrong(row, str(row["default"])) is None
    for special in row.get("on", []):  # type: ignore[attr-defined]
        assert set(special["chips"]) <= set(IDS)


@pytest.mark.parametrize(
    "text", ["", "=", "/", "level9:ring", "=level0:NA", "a=level0:NA/a=level0:NA", "level0:"]
)
def test_algorithms_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match="it does not have the form "):
        algorithms(text)


def test_several_chips_are_none_that_is_known() -> None:
    assert chip_of(["Ascend 910B"]) == "A2"
    assert chip_of(["Ascend 910B", "Ascend 310P"]) == chip_of([]) == chip_of(["Ascend d105"]) == ""


VARIABLES: tuple[dict[str, str], ...] = (
    {},
    {"HCCL_CONNECT_TIMEOUT": "60", "HCCL_EXEC_TIMEOUT": "soon", "HCCL_RDMA_TC": "133", "HCCL_BUFFSIZE": ""},
    {"HCCL_DETERMINISTIC": "yes", "HCCL_ALGO": "ring", "HCCL_OP_RETRY_ENABLE": "on", "CM_CHIEF_IP": "head"},
    {"HCCL_CONNECT_TIMEOUT": "“600”", "HCCL_ALGO": "level0:NA;level1:best", "HCCL_EVENT_TIMEOUT": "many"},
    {"HCCL_INTRA_PCIE_ENABLE": "1", "HCCL_INTRA_ROCE_ENABLE": "1"},
    {"HCCL_INTRA_ROCE_ENABLE": "0"},
    {"CM_CHIEF_IP": "192.0.2.1", "RANK_TABLE_FILE": "/t.json"},
    {"HCCL_CONNECT_TIMEOUT": "7200", "HCCL_EXEC_TIMEOUT": "1800", "HCCL_EVENT_TIMEOUT": "600"},
    {"HCCL_WHITELIST_DISABLE": "0"},
    {"HCCL_WHITELIST_DISABLE": "0", "HCCL_WHITELIST_FILE": "/none.json"},
    {"HCCL_WHITELIST_DISABLE": "0", "HCCL_WHITELIST_FILE": "/bad.json"},
    {"HCCL_WHITELIST_FILE": "/bad.json", "HCCL_SOCKET_FAMILY": "AF_INET6"},
    {"HCCL_IF_BASE_PORT": "60000", "HCCL_HOST_SOCKET_PORT_RANGE": "61000-61050"},
    {"HCCL_OP_EXPANSION_MODE": "AIV", "HCCL_DETERMINISTIC": "true", "HCCL_OP_RETRY_ENABLE": "L0:1,L1:1"},
    {"HCCL_ALGO": "level1:AHC;level2:ring", "HCCL_CONNECT_TIME_OUT": "600"},
    {"HCCL_ALGO": "level0:ring"},
    {"HCCL_ALGO": "allreduce=level0:NA;level1:NHR_V1"},
)


def machine_of_scene(chip: str = "0xd802") -> dict[str, Content]:
    """A machine with one NPU."""
    return {
        "/dev/davinci0": device(),
        f"{CARD}/vendor": "0x19e5\n",
        f"{CARD}/device": f"{chip}\n",
        f"{CARD}/class": "0x120000\n",
        "/bad.json": "no",
    }


def scene(tmp: Path) -> Iterator[Asked]:
    """Every code, and every reason."""
    for variables in VARIABLES:
        yield ask(check, fake_host(machine_of_scene(), variables=variables))
    yield ask(check, fake_host(machine_of_scene("0xd801"), variables={"HCCL_OP_EXPANSION_MODE": "AIV"}))
    yield ask(check, fake_host({"/dev/nvidia0": device()}, variables={"HCCL_BUFFSIZE": "1"}))
    old = "/usr/local/Ascend/ascend-toolkit/latest"
    info = "package_name=Ascend-cann-toolkit\nversion=5.1.0\n"
    files = {
        **machine_of_scene(),
        f"{old}/runtime/version.info": "Version=1.81\n",
        f"{old}/x86_64-linux/ascend_toolkit_install.info": info,
    }
    yield ask(check, fake_host(files, variables={"WORLD_SIZE": "8"}))
