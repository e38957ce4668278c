"""nccl-env: NCCL's variables are what NCCL reads, and none is left on by accident."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.gpu.nccl_env import nccl_env
from npudoctor.knowledge import tables
from npudoctor.knowledge.nccl import number
from npudoctor.testing import Asked, Content, ask, device, fake_host

GPUS: dict[str, Content] = {"/dev/nvidia0": device(), "/dev/nvidia1": device()}
TORCH = {"torch": "2.9.0"}

VARIABLES: tuple[dict[str, str], ...] = (
    {"NCCL_IB_SL": "99", "NCCL_IB_TC": "106s", "NCCL_CROSS_NIC": "many", "NCCL_DEBUG": "VERBOSE"},
    {"NCCL_ALGO": "ring;tree", "NCCL_PROTO": "Simple;scatter:LL", "NCCL_P2P_LEVEL": "near"},
    {"NCCL_ALGO": "rings", "TORCH_NCCL_BLOCKING_WAIT": "on", "NCCL_SOCKET_FAMILY": "“AF_INET”"},
    {"NCCL_IB_DISABLE": "true", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
    {
        "NCCL_IB_DISABLE": "1",
        "NCCL_DEBUG": "INFO",
        "NCCL_SOCKET_NTHREADS": "16",
        "NCCL_NSOCKS_PERTHREAD": "8",
    },
    {"NCCL_ASYNC_ERROR_HANDLING": "1", "NCCL_TREE_THRESHOLD": "0", "NCCL_SINGLE_RING_THRESHOLD": "1"},
    {"NCCL_P2P_DISABLED": "1"},
)


def judge(variables: Mapping[str, str], files: Mapping[str, Content] = GPUS, **more: Any) -> Asked:
    """What nccl-env says of these variables."""
    return ask(nccl_env, fake_host(files, variables=variables, packages=TORCH, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Every code, and every reason."""
    yield judge({})
    yield judge({"NCCL_DEBUG": "INFO"}, {})
    for variables in VARIABLES:
        yield judge(variables)


ROWS = tables.table("nccl_variables")["variable"]
ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


def test_the_table_is_whole() -> None:
    assert len({row["name"] for row in ROWS}) == len(ROWS)
    assert all(row["source"] and row["as_of"] for row in ROWS)
    others = tables.table("nccl_variables")["others"]
    assert "NCCL_SOCKET_IFNAME" in others
    assert not {row["name"] for row in ROWS} & set(others)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("1", 1),
        ("0x1F", 31),
        ("010", 8),
        (" -1", -1),
        ("22s", 22),
        ("true", 0),
        ("", 0),
        ("0x", 0),
        ("09", 0),
    ],
)
def test_numbers_as_c_reads_them(value: str, read: int) -> None:
    assert number(value)[0] == read


@pytest.mark.parametrize(
    "variables",
    [
        {"NCCL_IB_DISABLE": "0", "NCCL_P2P_DISABLE": "", "NCCL_DEBUG": "warn", "NCCL_SOCKET_IFNAME": "eth0"},
        {"NCCL_ALGO": "Ring", "NCCL_PROTO": "^LL128;allreduce:LL128", "NCCL_P2P_LEVEL": "SYS"},
        {"NCCL_NET_GDR_LEVEL": "5", "NCCL_IB_GID_INDEX": "3", "NCCL_IB_TIMEOUT": "22", "NCCL_IB_TC": "0x6A"},
        {"NCCL_ALGO": "ring,collnetdirect;allreduce:tree,collnetdirect;broadcast:ring"},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "TORCH_NCCL_BLOCKING_WAIT": "True"},
        {"NCCL_SOCKET_NTHREADS": "8", "NCCL_NSOCKS_PERTHREAD": "8", "NCCL_SOCKET_FAMILY": "AF_INET6"},
        {"NCCL_IB_HCA": "=mlx5_0:1", "NCCL_SOMETHING_OF_A_NEWER_ONE": "1", "NCCL_ROOT": "/opt/nccl"},
        {"NCCL_IB_GID_INDEX": "-1"},
    ],
)
def test_quiet_when_well(variables: dict[str, str]) -> None:
    asked = judge(variables)
    assert (asked.status, asked.codes) == (Status.OK, [])


@pytest.mark.parametrize(
    ("name", "value", "code", "severity", "words"),
    [
        ("NCCL_IB_TIMEOUT", "40", "bad-value", INFO, "not between 0 and 31"),
        ("NCCL_IB_RETRY_CNT", "7x", "bad-value", INFO, "only 7 is read from it"),
        ("NCCL_DEBUG", "VERBOSE", "bad-value", INFO, "not one of VERSION, WARN"),
        ("NCCL_SOCKET_FAMILY", "ipv4", "bad-value", INFO, "AF_INET6"),
        ("NCCL_P2P_LEVEL", "near", "bad-value", INFO, "LOC"),
        ("NCCL_ALGO", "rings", "bad-value", WARNING, "rings is not one of Tree"),
        ("NCCL_ALGO", "ring;tree", "bad-value", WARNING, "must begin with a function name: tree"),
        ("NCCL_PROTO", "scatter:LL", "bad-value", WARNING, "scatter is not an NCCL function"),
        ("TORCH_NCCL_BLOCKING_WAIT", "on", "bad-value", ERROR, "torch ends the job"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "yes", "bad-value", ERROR, "it is not a number"),
        ("NCCL_IB_DISABLE", "true", "read-otherwise", WARNING, "reads as the number 0"),
        ("NCCL_IB_DISABLE", "no", "read-otherwise", INFO, "reads as the number 0"),
        ("NCCL_IB_TC", "“106”", "pasted-punctuation", WARNING, "probably 106 was meant"),
        ("NCCL_P2P_DISABLE", "1", "left-on", INFO, "directly"),
        ("NCCL_SHM_DISABLE", "1", "left-on", INFO, "shared memory"),
        ("NCCL_IB_DISABLE", "2", "left-on", INFO, "InfiniBand"),
        ("NCCL_DEBUG", "info", "debug", INFO, "a debugging setting"),
        ("NCCL_CHECK_POINTERS", "1", "debug", INFO, "a debugging setting"),
        ("NCCL_TREE_THRESHOLD", "0", "outdated", INFO, "NCCL_ALGO replaces it"),
        ("NCCL_SINGLE_RING_THRESHOLD", "0", "outdated", INFO, "no longer read"),
        ("NCCL_P2P_DISABLED", "1", "misspelt", INFO, "NCCL reads NCCL_P2P_DISABLE"),
    ],
)
def test_what_is_said(name: str, value: str, code: str, severity: Severity, words: str) -> None:
    (finding,) = judge({name: value}).findings
    assert (finding.code, finding.severity) == (f"nccl-env.{code}", severity)
    assert words in finding.message
    assert finding.fix is not None
    assert finding.fix.undo[0].startswith(f"export {name}=")


def test_too_many_sockets() -> None:
    (finding,) = judge({"NCCL_SOCKET_NTHREADS": "16", "NCCL_NSOCKS_PERTHREAD": "8"}).findings
    assert "16 times 8 sockets is more than 64" in finding.message


def test_a_name_that_torch_has_changed() -> None:
    old = {"NCCL_ASYNC_ERROR_HANDLING": "1"}
    (finding,) = judge(old).findings
    assert finding.code == "nccl-env.outdated"
    assert finding.fix is not None
    assert finding.fix.commands == (
        "unset NCCL_ASYNC_ERROR_HANDLING",
        "export TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
    )
    for packages in ({"torch": "2.1.2"}, {}):
        assert ask(nccl_env, fake_host(GPUS, variables=old, packages=packages)).codes == []


def test_skipped() -> None:
    assert judge({}).status is Status.SKIPPED
    assert judge({"HCCL_IF_IP": "192.0.2.1"}).status is Status.SKIPPED
    assert judge({"NCCL_DEBUG": "INFO"}, {}).status is Status.SKIPPED
    assert judge({"NCCL_DEBUG": "INFO"}, {}, expect="gpu").codes == ["nccl-env.debug"]
    assert judge({"NCCL_DEBUG": "INFO"}, root="/image").status is Status.SKIPPED
