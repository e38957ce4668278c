"""hccn_tool as a real program: every format, every way to fail, nothing asked twice, nothing left running."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from npudoctor.host.devices.hccn import MAX_PARALLEL, QUESTIONS, Port, classify_answer, parse_answer
from npudoctor.host.devices.hccnconf import is_in_network, is_netmask, parse_conf
from npudoctor.host.process.commands import CommandResult

from ...checks.network.hccn_standin import Tool  # noqa: TID252

SAMPLES = Path(__file__).parent / "hccn_tool"


@pytest.mark.parametrize(
    "name, question, told",
    [
        ("ip", "ip", {"address": "198.51.100.17", "netmask": "255.255.255.0"}),
        ("tls", "tls", {"tls": "1"}),
        ("tls_certificate", "tls", {"tls": "0"}),
        ("gateway", "gateway", {"gateway": "198.51.100.1"}),
        ("net_health", "net_health", {"health": "Socket failed"}),
        ("netdetect", "netdetect", {"netdetect": "198.51.100.1"}),
        ("link", "link", {"link": "UP"}),
    ],
)
def test_formats(name: str, question: str, told: dict[str, str]) -> None:
    text = (SAMPLES / f"{name}.txt").read_text()
    assert parse_answer(question, text) == told
    assert parse_answer(question, f"[WARNING] something else\r\n{text}\n\n") == told


def test_spellings_of_other_drivers() -> None:
    assert parse_answer("tls", "device 3, tls switch[1](0:disable, 1:enable)") == {"tls": "1"}
    assert parse_answer("netdetect", "netdetect addr: 192.0.2.1") == {"netdetect": "192.0.2.1"}
    assert parse_answer("ip", "ipaddr: 192.0.2.1\nnetmask: 255.0.0.0\n")["address"] == "192.0.2.1"
    assert parse_answer("ip", "ipaddr:2001:db8::1\n") == {"address": "2001:db8::1"}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "text",
    ["", "\0\0", "link status", "link status:", "tls switch[", "ipaddr:none here", "{}", "\udcff" * 50],
)
def test_garbage_tells_nothing(question: str, text: str) -> None:
    assert parse_answer(question, text) == {}


def answered(text: str, status: int = 0, ended: str = "exited") -> CommandResult:
    return CommandResult(("hccn_tool",), ended, status if ended == "exited" else None, text)


@pytest.mark.parametrize(
    "question, answer, kind",
    [
        ("ip", answered(""), "unset"),
        ("ip", answered("", 1), "unset"),
        ("ip", answered("Get ipconf failed, because no ip was preset there!\n", 1), "unset"),
        ("gateway", answered("Get gateway failed, because no gateway was preset there!\n"), "unset"),
        ("netdetect", answered("netdetect address: 0.0.0.0\n"), "unset"),
        ("link", answered("", 0), "strange"),
        ("link", answered("", 1), "refused"),
        ("ip", answered("Command execute failed!\n", 1), "refused"),
        ("ip", answered("Command execute failed!\n", 0), "strange"),
        ("tls", answered("", ended="timeout"), "hung"),
        ("ip", answered("x" * 99, ended="flooded"), "strange"),
        ("ip", answered("", ended="missing"), "not-run"),
        ("ip", answered("", ended="untrusted"), "not-run"),
    ],
)
def test_endings(question: str, answer: CommandResult, kind: str) -> None:
    assert classify_answer(question, answer).kind == kind


def get(ports: list[Port], device: int) -> Port:
    return next(port for port in ports if port.device == device)


def test_each_question_once_whoever_asks(tmp_path: Path) -> None:
    tool = Tool(tmp_path)
    host = tool.host()
    got: list[list[Port]] = []
    askers = [threading.Thread(target=lambda: got.append(host.hccn.ports())) for _number in range(5)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert sorted(tool.asked()) == sorted(f"{n} -{name}" for n in range(8) for name in QUESTIONS)
    assert all(ports is got[0] for ports in got)
    assert get(got[0], 3).get("address") == "198.51.100.13"


def test_devices_side_by_side_the_questions_of_one_in_a_row(tmp_path: Path) -> None:
    tool = Tool(tmp_path, range(16), seconds=0.1)
    ports = tool.host().hccn.ports()
    assert [port.device for port in ports] == list(range(16))
    assert 2 <= tool.most_at_once() <= MAX_PARALLEL
    for number in range(16):
        own = [line for line in tool.log.read_text().splitlines() if line.split()[1] == str(number)]
        assert [line[0] for line in own] == ["+", "-"] * len(QUESTIONS)


def test_one_that_hangs_costs_its_own_answers_only(tmp_path: Path) -> None:
    tool = Tool(tmp_path)
    tool.does(3, "link", f"echo $$ > {tmp_path}/pid\nexec sleep 1000\n")
    began = time.monotonic()  # room for the others on a loaded machine
    ports = tool.host(timeout=8.0).hccn.ports()
    assert time.monotonic() - began < 8.0
    kinds = [get(ports, 3).replies[name].kind for name in QUESTIONS]
    assert kinds == ["told", "hung", *["not-asked"] * 5]
    assert all(reply.kind == "told" for port in ports if port.device != 3 for reply in port.replies.values())
    pid = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 5
    while psutil.pid_exists(pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert not psutil.pid_exists(pid)


def test_all_that_hang_end_in_time(tmp_path: Path) -> None:
    tool = Tool(tmp_path, range(16))
    for number in range(16):
        tool.does(number, "ip", "exec sleep 1000\n")
    began = time.monotonic()
    ports = tool.host(timeout=2.0).hccn.ports()
    assert time.monotonic() - began < 7
    assert len(ports) == 16


@pytest.mark.parametrize(
    "script, kind",
    [
        ("head -c 200000 /dev/urandom\n", "strange"),
        ("yes 'link status'\n", "strange"),
        ("kill -SEGV $$\n", "refused"),
        ("echo 'error while loading shared libraries: libc_sec.so' >&2; exit 127\n", "refused"),
        ("echo 'Usage: hccn_tool'; exit 0\n", "strange"),
        ("echo 'link status: UP' >&2\n", "strange"),
    ],
)
def test_what_a_program_may_do(tmp_path: Path, script: str, kind: str) -> None:
    tool = Tool(tmp_path, [0])
    tool.does(0, "link", script)
    (port,) = tool.host().hccn.ports()
    assert port.replies["link"].kind == kind


def test_a_daemon_that_it_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    tool = Tool(tmp_path, [0])
    tool.does(0, "link", f"sleep 1000 &\necho $! > {tmp_path}/pid\necho 'link status: UP'\n")
    began = time.monotonic()
    (port,) = tool.host().hccn.ports()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert port.get("link") == "UP"
    assert time.monotonic() - began < 5


def test_a_tool_that_is_gone(tmp_path: Path) -> None:
    tool = Tool(tmp_path, [0])
    host = tool.host()
    tool.place.unlink()
    (port,) = host.hccn.ports()
    assert {reply.kind for reply in port.replies.values()} == {"not-run"}


def test_the_file() -> None:
    conf = parse_conf(
        "# comment\naddress_0=192.0.2.1\n netmask_0 = 255.255.255.0 \nsend_arp_status_0=1\nnonsense\n"
        "address_0=192.0.2.2\naddress_10=192.0.2.10\nbond_address_1=192.0.2.3\ngateway_=1\naddress_x=1\n"
    )
    assert conf.get(0, "address") == "192.0.2.1"
    assert conf.get(0, "netmask") == "255.255.255.0"
    assert conf.get(0, "send_arp_status") == "1"
    assert conf.get(1, "address") is None
    assert conf.addresses() == {0: "192.0.2.1", 10: "192.0.2.10"}
    assert conf.conflicts == ("address_0",)
    assert conf.odd_lines == ("nonsense", "gateway_=1", "address_x=1")


def test_netmasks_and_networks() -> None:
    assert is_netmask("255.255.255.0") and is_netmask("128.0.0.0") and is_netmask("255.255.255.255")
    assert not any(map(is_netmask, ("255.0.255.0", "0.0.0.255", "24", "", "255.255.255")))
    assert is_in_network("192.0.2.1", "192.0.2.200", "255.255.255.0")
    assert not is_in_network("192.0.3.1", "192.0.2.200", "255.255.255.0")
    assert is_in_network("fe80::1", "192.0.2.1", "255.255.255.0"), "not for us to judge"
