"""hccl-ports: the ports of a job are free, or held and by whom."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest
from tests.checks.network.ports_machine import sockets_of

from npudoctor import Action, Risk, Severity, Status, WriteFile
from npudoctor.checks.network.hccl_ports import hccl_ports
from npudoctor.testing import Asked, Content, ask, device, fake_host, folder, link, process_files, unreadable

from .ports_machine import (
    ANY,
    BASE,
    ESTABLISHED,
    HERE,
    LISTEN,
    NPU,
    OTHER,
    judge,
    row,
)

FREE, UNSEEN = {"state": "free"}, {"state": "not-visible"}


def test_nothing_named_and_no_npu_is_skipped() -> None:
    assert judge().status is Status.SKIPPED


def test_all_is_free() -> None:
    asked = judge(row(ANY, 22, 1), variables=HERE, expect="npu")
    assert (asked.status, asked.findings) == (Status.OK, ())
    assert asked.facts == {
        "tcp/29500": FREE,
        "tcp/60000-60031": FREE,
        f"npu/{NPU}": UNSEEN,
    }


def test_hccl_counts_where_an_npu_is_found() -> None:
    npu = {"/dev/davinci0": device()}
    assert "tcp/60000-60031" in judge(files=npu, expect="auto").facts
    assert judge(files=npu, expect="none").status is Status.SKIPPED
    assert judge(expect="auto").status is Status.SKIPPED


def test_16666_is_never_free() -> None:
    assert f"tcp/{NPU}" not in judge(expect="npu").facts
    elsewhere = judge(variables={**BASE, "HCCL_NPU_SOCKET_PORT_RANGE": "61000-61050"})
    assert elsewhere.facts["npu/61000-61050"] == UNSEEN


def test_a_living_process_holds_a_port() -> None:
    asked = judge(row(ANY, 60007, 1), expect="npu")
    assert asked.codes == ["hccl-ports.held"]
    (finding,) = asked.findings
    assert finding.severity is Severity.WARNING
    assert finding.action is Action.CONFIG
    assert "60007" in finding.message
    assert ANY in finding.message
    assert f"pid {OTHER} (python3, alice)" in finding.message
    assert asked.facts == {
        "tcp/60000-60006": FREE,
        "tcp/60007": {"state": "held", "addresses": [ANY], "pids": [OTHER], "uids": [1000]},
        "tcp/60008-60031": FREE,
        f"npu/{NPU}": UNSEEN,
    }


@pytest.mark.parametrize("port", [40000, 40031])
def test_both_ends_of_the_range_count(port: int) -> None:
    assert judge(row(ANY, port, 1), variables=BASE).codes == ["hccl-ports.held"]


@pytest.mark.parametrize("port", [39999, 40032, 60000])
def test_ports_beside_the_range_do_not(port: int) -> None:
    assert judge(row(ANY, port, 1), variables=BASE, expect="npu").findings == ()


@pytest.mark.parametrize("address", [ANY, "127.0.0.1", "192.0.2.1", "::", "::1", "::ffff:192.0.2.1"])
def test_every_address_is_judged_and_named(address: str) -> None:
    (finding,) = judge(row(address, 40001, 1), variables=BASE).findings
    assert finding.code == "hccl-ports.held"
    assert address in finding.message


def test_many_ports_are_one_finding() -> None:
    rows = [row(ANY, 40000 + number, 1 + number) for number in range(8)]
    (finding,) = judge(*rows, variables=BASE).findings
    assert "40000-40007" in finding.message
    assert len(finding.evidence) == 8


def test_defaults_that_nothing_names_are_information() -> None:
    rows = [row(ANY, port, port) for port in (29500, 29688, 50000, 6000, 8118, 5500, 6500, 6600, 50052)]
    assert judge(*rows).status is Status.SKIPPED  # nothing here would run a job
    asked = judge(*rows, expect="gpu")
    (finding,) = asked.findings
    assert (asked.status, finding.code, finding.severity) == (
        Status.OK,
        "hccl-ports.default-held",
        Severity.INFO,
    )
    for port in (29500, 29688, 50000, 6000, 8118, 5500, 6500, 6600):
        assert str(port) in finding.message
    assert "50052" not in finding.message


def test_a_default_that_is_named_is_not_told_twice() -> None:
    assert judge(row(ANY, 29500, 1), variables=HERE).codes == ["hccl-ports.held"]


@pytest.mark.parametrize("state_and_inode", [(LISTEN, 50), (ESTABLISHED, 1)])
def test_a_default_of_an_ancestor_or_of_a_connection_is_not_told(state_and_inode: tuple[str, int]) -> None:
    state, inode = state_and_inode
    asked = judge(row("192.0.2.1", 50000, inode, state=state), expect="gpu")
    assert asked.status is Status.SKIPPED


KERNEL = "/proc/sys/net/ipv4/ip_local_"


@pytest.mark.parametrize(
    ("low_high", "reserved", "told"),
    [
        ("32768\t60999\n", "\n", "60000-60031"),
        ("32768\t60999\n", "8080,60000-60015\n", "60016-60031"),
        ("32768\t60010\n", "\n", "60000-60010"),
        ("32768\t60999\n", "60000-60031\n", None),
        ("32768\t60999\n", "59000-61000\n", None),
        ("32768\t59999\n", "\n", None),
        ("61000\t65535\n", "\n", None),
    ],
)
def test_ports_of_outgoing_connections(low_high: str, reserved: str, told: Optional[str]) -> None:
    files = {f"{KERNEL}port_range": low_high, f"{KERNEL}reserved_ports": reserved}
    asked = judge(files=files, expect="npu")
    assert asked.status is Status.OK
    if told is None:
        assert asked.findings == ()
        return
    (finding,) = asked.findings
    assert (finding.code, finding.severity) == ("hccl-ports.ephemeral", Severity.INFO)
    assert told in finding.message
    assert finding.fix is not None
    before = reserved.strip()
    joined = f"{before}{',' if before else ''}{told}".replace("60015,60016-", "")
    assert finding.fix.commands == (f"sysctl -w net.ipv4.ip_local_reserved_ports={joined}",)
    back = f"sysctl -w net.ipv4.ip_local_reserved_ports={before}"
    nothing = "echo > /proc/sys/net/ipv4/ip_local_reserved_ports"
    assert finding.fix.undo_commands == ((back if before else nothing),)
    assert (finding.fix.risk, finding.fix.needs_root) == (Risk.CAUTION, True)


KEY = "net.ipv4.ip_local_reserved_ports"
KEPT = "/etc/sysctl.d/90-npudoctor-ports.conf"


@pytest.mark.parametrize(
    ("files", "written", "said"),
    [
        ({"/etc/sysctl.d": folder()}, True, "at every boot"),
        ({"/etc/sysctl.d/10-a.conf": "# x=1\nkernel.x = 1\n"}, True, "at every boot"),
        ({KEPT: f"{KEY}=1\n"}, True, "at every boot"),
        ({}, False, "/etc/sysctl.d decides"),
        ({"/etc/sysctl.d": folder(), "/etc/sysctl.conf": f"{KEY} = 1\n"}, False, "/etc/sysctl.conf decides"),
        ({"/etc/sysctl.d/a.conf": f"-{KEY.replace('.', '/')}=1\n"}, False, "/etc/sysctl.d/a.conf decides"),
        ({"/etc/sysctl.d": folder(), "/usr/lib/sysctl.d/a.conf": f"{KEY}=\n"}, False, "a.conf decides"),
        ({"/etc/sysctl.d": folder(), "/.dockerenv": ""}, False, "until the container ends"),
    ],
    ids=str,
)
def test_whether_it_is_kept_for_the_next_boot(files: dict[str, Content], written: bool, said: str) -> None:
    kernel: dict[str, Content] = {f"{KERNEL}port_range": "32768\t60999\n", f"{KERNEL}reserved_ports": "\n"}
    asked = judge(files={**kernel, **files}, variables={"HCCL_IF_BASE_PORT": "40000"})
    (fix,) = [one.fix for one in asked.findings if one.code == "hccl-ports.ephemeral"]
    assert fix is not None and said in fix.title
    paths = [step.path for step in fix.steps if isinstance(step, WriteFile)]
    assert paths == ([KEPT] if written else [])
    if written:
        assert f"printf '%s\\n' {KEY}=40000-40031 > {KEPT}" in fix.commands
    assert fix.risk is (Risk.MANUAL if "/.dockerenv" in files else Risk.CAUTION)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_it_cannot_tell_without_the_table(number: int) -> None:
    asked = judge(variables=HERE, files={"/proc/net/tcp": unreadable(number)})
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, False)
    assert "/proc/net/tcp" in asked.reason


def test_a_kernel_without_ipv6_is_well() -> None:
    assert judge(variables=HERE, files={"/proc/net/tcp6": unreadable(errno.ENOENT)}).status is Status.OK


def test_it_cannot_tell_whether_npus_are_here_but_says_the_rest() -> None:
    asked = judge(row(ANY, 29500, 1), variables=HERE, files={"/dev": unreadable(errno.EIO)}, expect="auto")
    assert (asked.status, asked.codes) == (Status.UNKNOWN, ["hccl-ports.held"])


def test_an_image_has_no_ports() -> None:
    assert ask(hccl_ports, fake_host(root="/image", variables=BASE)).status is Status.SKIPPED


def scene(tmp: Path) -> Iterator[Asked]:
    kernel = {"/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n"}
    job = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n"
    container = f"0::/system.slice/docker-{'a' * 64}.scope\n"
    here = {"/proc/self/ns/pid": "pid:[4026531836]", "/proc/self/ns/cgroup": "cgroup:[4026531835]"}
    left = {
        **process_files(4000, uid=1000, descriptors=sockets_of(100)),
        **process_files(4001, uid=1000, descriptors=sockets_of(101)),
        **{path: link(target) for path, target in here.items()},
        "/proc/1/cgroup": "0::/init.scope\n",
        "/proc/4000/cgroup": job,
        "/proc/4001/cgroup": container,
    }
    yield judge()
    yield judge(row(ANY, 40000, 1), row("::1", 40002, 2), variables=BASE)
    yield judge(row("192.0.2.1", 40000, 900, 1001, ESTABLISHED), variables=BASE)
    yield judge(row(ANY, 60000, 100), row(ANY, 60001, 101), files=left, expect="npu")
    yield judge(row(ANY, 29500, 1), variables=HERE, files=kernel, expect="npu")
    yield judge(row(ANY, 29500, 1), row(ANY, 8118, 2), expect="gpu")
    yield judge(row(ANY, 29500, 1), variables={**HERE, "MASTER_ADDR": "head"})
    yield judge(
        row(ANY, 61000, 1),
        variables={"HCCL_HOST_SOCKET_PORT_RANGE": "61000-61050, 61060"},
    )
    for value in ("", "many", "99", "65520"):
        yield judge(variables={"HCCL_IF_BASE_PORT": value})
    for value in ("61050-61000", "61000-61010,61005"):
        yield judge(variables={"HCCL_HOST_SOCKET_PORT_RANGE": value})
