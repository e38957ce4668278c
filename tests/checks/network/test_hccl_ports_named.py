"""hccl-ports: which ports the variables name, which values are refused, which ports are proposed instead."""

from __future__ import annotations

import os
import time

import pytest

from npudoctor import Risk, Severity, Status
from npudoctor.testing import process_files

from .ports_machine import ANY, BASE, HERE, OTHER, judge, row, sockets_of


def test_the_way_out_is_a_free_base() -> None:
    taken = [row(ANY, port, port) for port in (40001, 61005)]
    files = {"/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n"}
    (finding, _reserve) = judge(*taken, variables=BASE, files=files).findings
    assert finding.fix is not None
    assert finding.fix.commands == ("export HCCL_IF_BASE_PORT=61006",)
    assert (finding.fix.risk, finding.fix.needs_root) == (Risk.MANUAL, False)


def test_the_way_out_where_a_range_is_set_is_a_range() -> None:
    named = {"HCCL_HOST_SOCKET_PORT_RANGE": "61000-61001"}
    (finding,) = judge(row(ANY, 61000, 1), variables=named).findings
    assert finding.fix is not None
    assert finding.fix.commands == ("export HCCL_HOST_SOCKET_PORT_RANGE=60000-60031",)
    assert any("1 are free" in line for line in finding.evidence)


def test_the_way_out_for_a_meeting_point_is_another_port() -> None:
    rows = [row(ANY, 29500, 1), row(ANY, 29501, 2)]
    (finding,) = judge(*rows, variables=HERE).findings
    assert finding.fix is not None
    assert finding.fix.commands == ("export MASTER_PORT=29502",)


def test_no_way_out_where_no_port_is_free() -> None:
    rows = [row(ANY, port, 1) for port in range(10000, 65536, 16)]
    finding = judge(*rows, variables=BASE).findings[0]
    assert (finding.code, finding.fix) == ("hccl-ports.held", None)


def test_the_range_beats_the_base() -> None:
    both = {**BASE, "HCCL_HOST_SOCKET_PORT_RANGE": "61000,61010-61011"}
    assert judge(row(ANY, 40001, 1), variables=both).findings == ()
    assert judge(row(ANY, 61010, 1), variables=both).codes == ["hccl-ports.held"]
    assert judge(row(ANY, 61005, 1), variables=both).findings == ()


def test_auto_leaves_nothing_to_judge() -> None:
    asked = judge(row(ANY, 60001, 1), variables={"HCCL_HOST_SOCKET_PORT_RANGE": "auto", **BASE}, expect="npu")
    assert (asked.status, asked.findings) == (Status.OK, ())


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HCCL_IF_BASE_PORT", value)
        for value in ("abc", "", " ", "70000", "65530", "80", "６００００", "60000 ")
    ]
    + [
        ("HCCL_HOST_SOCKET_PORT_RANGE", value)
        for value in (
            "61050-61000",
            "61000-61010,61005",
            "61000-70000",
            "６１０００",
            "61000;",
            "0-5",
            "AUTO",
        )
    ]
    + [("MASTER_PORT", value) for value in ("abc", "70000", "-1", "２９５００", "29500 ", "[29500]")]
    + [("MS_SCHED_PORT", value) for value in ("abc", "80", "65536", "8118\n")],
)
def test_a_bad_value(variable: str, value: str) -> None:
    asked = judge(variables={variable: value}, expect="npu")
    (finding,) = (one for one in asked.findings if one.code == "hccl-ports.bad-value")
    assert asked.status is Status.PROBLEM
    assert finding.severity is Severity.ERROR
    assert variable in finding.message
    assert value in finding.message
    assert "{" not in finding.message


def test_a_bad_value_of_hccl_leaves_no_range_to_judge() -> None:
    bad = {"HCCL_IF_BASE_PORT": "abc"}
    assert judge(row(ANY, 60001, 1), variables=bad, expect="npu").codes == ["hccl-ports.bad-value"]
    with_range = {**bad, "HCCL_HOST_SOCKET_PORT_RANGE": "61000"}
    assert judge(row(ANY, 61000, 1), variables=with_range).codes == [
        "hccl-ports.bad-value",
        "hccl-ports.held",
    ]


def test_blanks_in_a_range_are_a_warning_as_hccl_drops_them() -> None:
    asked = judge(row(ANY, 61001, 1), variables={"HCCL_HOST_SOCKET_PORT_RANGE": "61000, 61001"})
    assert asked.codes == ["hccl-ports.bad-value", "hccl-ports.held"]
    assert asked.findings[0].severity is Severity.WARNING


def test_a_range_of_blanks_is_none() -> None:
    asked = judge(variables={"HCCL_HOST_SOCKET_PORT_RANGE": "  "}, expect="npu")
    assert (asked.findings, "tcp/60000-60031" in asked.facts) == ((), True)


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "192.0.2.1", "near", ANY, os.uname().nodename])
def test_master_port_counts_where_master_addr_is_us(address: str) -> None:
    asked = judge(row(ANY, 29500, 1), variables={"MASTER_ADDR": address, "MASTER_PORT": "29500"})
    assert asked.codes == ["hccl-ports.held"]


@pytest.mark.parametrize("address", ["192.0.2.9", "far"])
def test_master_port_of_another_machine_does_not(address: str) -> None:
    asked = judge(row(ANY, 29500, 1), variables={"MASTER_ADDR": address, "MASTER_PORT": "29500"})
    assert (asked.status, asked.findings) == (Status.SKIPPED, ())
    assert asked.facts["tcp/29500"] == {"state": "elsewhere", "variable": "MASTER_ADDR", "value": address}


def test_master_port_without_an_address_is_a_default_at_most() -> None:
    asked = judge(row(ANY, 29500, 1), variables={"MASTER_PORT": "29500"})
    assert (asked.status, asked.codes) == (Status.OK, ["hccl-ports.default-held"])


def test_a_name_that_only_a_name_server_knows_is_not_judged() -> None:
    named = {"MASTER_ADDR": "nobody.knows", "MASTER_PORT": "29500"}
    held = judge(row(ANY, 29500, 1), variables=named)
    assert (held.status, held.advisory, held.findings) == (Status.UNKNOWN, True, ())
    assert "nobody.knows" in held.reason
    assert f"pid {OTHER}" in held.reason
    # Free here is well wherever it is.
    assert judge(variables=named).status is Status.OK


def test_no_name_server_hides_the_other_findings() -> None:
    named = {"MASTER_ADDR": "nobody.knows", "MASTER_PORT": "29500", **BASE}
    asked = judge(row(ANY, 29500, 1), row(ANY, 40000, 2), variables=named)
    assert (asked.status, asked.codes) == (Status.UNKNOWN, ["hccl-ports.held"])


def test_port_0_is_chosen_by_the_system() -> None:
    assert judge(variables={"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}).status is Status.SKIPPED


def test_the_scheduler_of_mindspore() -> None:
    named = {"MS_SCHED_HOST": "192.0.2.1", "MS_SCHED_PORT": "8118"}
    (finding,) = judge(row(ANY, 8118, 1), variables=named).findings
    assert finding.code == "hccl-ports.held"
    assert "MS_SCHED_PORT" in finding.message
    far = {**named, "MS_SCHED_HOST": "192.0.2.9"}
    assert judge(row(ANY, 8118, 1), variables=far).findings == ()


def test_hostile_names_and_values_are_only_words() -> None:
    evil = process_files(OTHER, "a) {x} %s \x1b[31m", uid=1000, descriptors=sockets_of(1))
    variables = {"HCCL_HOST_SOCKET_PORT_RANGE": "{0}{x}%s\x1b" * 1000, **HERE}
    asked = judge(row(ANY, 29500, 1), variables=variables, files=evil)
    assert asked.codes == ["hccl-ports.held", "hccl-ports.bad-value"]
    assert len(asked.findings[1].message) < 300


def test_a_wide_range_is_told_in_few_words_and_little_time() -> None:
    rows = [row("192.0.2.1", port, 1) for port in range(1024, 65000, 2)]
    files = {"/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n"}
    began = time.monotonic()
    asked = judge(*rows, variables={"HCCL_HOST_SOCKET_PORT_RANGE": "1024-65535"}, files=files)
    assert time.monotonic() - began < 5
    assert asked.codes == ["hccl-ports.held", "hccl-ports.ephemeral"]
    assert len(str(asked)) < 10_000
    crowded = {"state": "crowded", "ports": 64512, "not_free": 31988}
    assert asked.facts["tcp/1024-65535"] == crowded
    # A line that takes all ports away from outgoing connections is no help.
    assert asked.findings[1].fix is None
