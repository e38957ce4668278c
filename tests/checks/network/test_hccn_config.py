"""hccn-config: the file alone, the tool as a real program, and both together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from tests.checks.network.hccn_standin import Tool

from npudoctor.checks.network.hccn_config import hccn_config
from npudoctor.core.model import Severity, Status
from npudoctor.host import Host
from npudoctor.testing import Asked, Content, ask, device, fake_host, link, unreadable

PEERS = ("192.0.2.9",)
CONTAINER: dict[str, Content] = {"/.dockerenv": ""}


def file(devices: Sequence[int] = range(8), **changes: str) -> dict[str, Content]:
    """The file that goes with the stand-in's answers, with other values where told."""
    lines = {}
    for n in devices:
        lines.update({f"address_{n}": f"198.51.100.1{n}", f"netmask_{n}": "255.255.255.0"})
        lines.update({f"gateway_{n}": "198.51.100.1", f"netdetect_{n}": "198.51.100.1"})
    lines.update(changes)
    return {"/etc/hccn.conf": "".join(f"{key}={value}\n" for key, value in lines.items())}


def told(host: Host) -> Asked:
    try:
        return ask(hccn_config, host)
    finally:
        host.close()


def codes(asked: Asked) -> list[str]:
    return [code.partition(".")[2] for code in asked.codes]


def nodes(*numbers: int) -> dict[str, Content]:
    return {f"/dev/davinci{n}": device() for n in numbers}


def card(model: str) -> dict[str, Content]:
    place = "/sys/bus/pci/devices/0000:81:00.0"
    return {f"{place}/vendor": "0x19e5\n", f"{place}/device": f"{model}\n", f"{place}/class": "0x120000\n"}


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


@pytest.mark.parametrize("peers", [(), PEERS])
@pytest.mark.parametrize("files", [{}, file()])
def test_quiet_on_a_healthy_machine(tool: Tool, files: Mapping[str, Content], peers: tuple[str, ...]) -> None:
    asked = told(tool.host(files, peers=peers))
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["npu/2"] == {
        "address": "198.51.100.12", "netmask": "255.255.255.0", "gateway": "198.51.100.1",
        "netdetect": "198.51.100.1", "link": "UP", "health": "Success", "tls": "0", "mtu": "4096",
    }  # fmt: skip


def test_an_address_that_was_not_saved(tool: Tool) -> None:
    (finding,) = told(tool.host(file(address_2="", netmask_2=""))).findings
    assert (finding.code, finding.severity) == ("hccn-config.not-saved", Severity.WARNING)
    assert finding.evidence == ("address_2=198.51.100.12",)
    assert finding.fix is not None
    (line,) = finding.fix.commands
    assert line.endswith("-i 2 -ip -s address 198.51.100.12 netmask 255.255.255.0")
    lease = file(address_2="", udhcpc_enable_2="1")
    by_another_name = file(address_2="", IPv6address_2="198.51.100.12")
    for quiet in (lease, by_another_name):
        assert told(tool.host(quiet)).codes == []


def test_without_the_file_no_address_is_saved(tool: Tool) -> None:
    gone: dict[str, Content] = {"/etc/hccn.conf": link("/gone")}
    assert codes(told(tool.host(gone))) == ["not-saved"]
    assert codes(told(tool.host({**gone, **CONTAINER}))) == []  # it was not mounted into it


def test_quiet_where_nothing_was_ever_set_up(tool: Tool) -> None:
    for n in range(8):
        tool.says(n, "ip", "", 1)
        tool.says(n, "link", "link status: DOWN")
        tool.says(n, "net_health", "net health status: Init")
        tool.says(n, "netdetect", "netdetect address: 0.0.0.0")
        tool.says(n, "gateway", "Get gateway failed, because no gateway was preset there!", 1)
    asked = told(tool.host())
    assert (asked.status, asked.codes) == (Status.OK, [])
    asked = told(tool.host(peers=PEERS))
    assert codes(asked) == ["not-set-up"]


def test_a_question_that_no_npu_answers_is_no_matter(tool: Tool) -> None:
    for n in range(8):
        tool.says(n, "net_health", "Command execute failed!", 1)
    asked = told(tool.host())
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["npu/0"]["-net_health"] == "refused"  # type: ignore[index]


@pytest.mark.parametrize("question", ["net_health", "netdetect", "gateway", "tls"])
def test_a_failure_with_status_0_that_all_say_is_no_matter(tool: Tool, question: str) -> None:
    for n in range(8):
        tool.says(n, question, f"dev {n}: this command is not supported")
    asked = told(tool.host())
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["npu/0"][f"-{question}"] == "strange"  # type: ignore[index]
    tool.says(5, question, "internal error")
    assert told(tool.host()).status is Status.UNKNOWN, "one is other than the rest"


@pytest.mark.parametrize("text, status", [("mtu: lots", 0), ("", 1), ("Command execute failed!", 1)])
def test_the_mtu_is_only_a_fact(tool: Tool, text: str, status: int) -> None:
    tool.says(3, "mtu", text, status)
    asked = told(tool.host())
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert "mtu" not in asked.facts["npu/3"] and "-mtu" in asked.facts["npu/3"]  # type: ignore[operator]


@pytest.mark.parametrize("question", ["ip", "link"])
def test_strange_words_about_address_and_link_are_cannot_tell(tool: Tool, question: str) -> None:
    for n in range(8):
        tool.says(n, question, "this command is not supported")
    assert told(tool.host()).status is Status.UNKNOWN


@pytest.mark.parametrize("status", [0, 1])
def test_a_port_without_address_has_no_health(tool: Tool, status: int) -> None:
    for n in (2, 5):
        tool.says(n, "ip", "")
        tool.says(n, "net_health", "", status)
    asked = told(tool.host())
    assert (asked.status, codes(asked)) == (Status.PROBLEM, ["no-address"])
    tool.says(0, "net_health", "")
    assert told(tool.host()).status is Status.UNKNOWN


def test_skipped_where_it_does_not_apply(tool: Tool) -> None:
    assert told(fake_host(expect="npu")).status is Status.SKIPPED, "no NPU"
    assert told(fake_host(nodes(0), expect="none")).status is Status.SKIPPED
    assert told(fake_host({**nodes(0), **CONTAINER})).status is Status.SKIPPED, "nothing mounted"
    assert told(fake_host({**nodes(0), **card("0xd500"), **file()})).status is Status.SKIPPED
    assert told(fake_host(file(), root="/srv/image")).status is Status.SKIPPED
    assert told(tool.host(devices=[])).status is Status.SKIPPED
    assert tool.asked() == []


def test_only_root_may_ask_the_tool(tool: Tool) -> None:
    asked = told(tool.host(file(), euid=1000))
    assert (asked.status, asked.advisory, asked.codes) == (Status.UNKNOWN, True, [])
    asked = told(tool.host({"/etc/hccn.conf": unreadable()}, euid=1000))
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)
    asked = told(tool.host(file(address_1="198.51.100.10"), euid=1000))
    assert codes(asked) == ["duplicate-address"]
    assert tool.asked() == []


def test_root_runs_no_tool_that_others_may_write(tool: Tool) -> None:
    tool.place.chmod(0o777)
    asked = told(tool.host(file(), as_root=True))
    assert (asked.status, asked.advisory, tool.asked()) == (Status.UNKNOWN, True, [])


def test_without_the_tool_the_file_is_judged() -> None:
    files = {**nodes(0, 1), **file([0, 1], address_1="198.51.100.10")}
    asked = told(fake_host(files))
    assert (asked.status, asked.advisory, codes(asked)) == (Status.UNKNOWN, True, ["duplicate-address"])


def test_root_that_cannot_read_the_file_cannot_tell(tool: Tool) -> None:
    asked = told(tool.host({"/etc/hccn.conf": unreadable()}))
    assert (asked.status, asked.advisory, asked.codes) == (Status.UNKNOWN, False, [])
    assert len(tool.asked()) == 56, "the ports are judged"


def test_an_ascend_950_is_known_from_documents_only(tool: Tool) -> None:
    asked = told(tool.host({**card("0xd806"), **file()}))
    assert (asked.status, asked.advisory, tool.asked()) == (Status.UNKNOWN, True, [])


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    "question, text, code",
    [
        ("link", "link status: DOWN", "link-down"),
        ("ip", "ipaddr:198.51.100.10\nnetmask:255.255.255.0", "duplicate-address"),
        ("ip", "", "no-address"),
    ],
)
def test_one_port_is_ill(tool: Tool, question: str, text: str, code: str, several: bool) -> None:
    tool.says(5, question, text)
    (finding,) = told(tool.host(peers=PEERS if several else ())).findings
    assert finding.code == f"hccn-config.{code}"
    assert finding.severity is (Severity.ERROR if several else Severity.WARNING)
    if code != "duplicate-address":
        assert finding.device == "/dev/davinci5"


@pytest.mark.parametrize(
    "health", ["Socket fail", "Socket failed", "Receive timeout", "Fault", "Thread error"]
)
def test_health(tool: Tool, health: str) -> None:
    tool.says(2, "net_health", f"net health status: {health}")
    (finding,) = told(tool.host(peers=PEERS)).findings
    assert (finding.code, finding.severity) == ("hccn-config.unhealthy", Severity.WARNING)
    assert health in finding.message
    assert finding.evidence == ("netdetect_2=198.51.100.1",)


@pytest.mark.parametrize("health", ["Success", "Init", "Detect ip set", "Unknown"])
def test_health_that_is_no_fault(tool: Tool, health: str) -> None:
    tool.says(2, "net_health", f"net health status: {health}")
    assert told(tool.host()).codes == []


def test_a_link_that_is_down_is_the_cause_of_the_health(tool: Tool) -> None:
    tool.says(2, "link", "link status: DOWN")
    tool.says(2, "net_health", "net health status: Fault")
    down, ill = told(tool.host()).findings
    assert (down.code, ill.echo_of) == ("hccn-config.link-down", ("hccn-config.link-down",))


def test_a_link_of_a_port_without_address_is_nobodys(tool: Tool) -> None:
    for n in range(1, 8):
        tool.says(n, "ip", "")
        tool.says(n, "link", "link status: DOWN")
    assert codes(told(tool.host())) == ["no-address"]


def test_tls_differs(tool: Tool) -> None:
    tool.says(6, "tls", "dev_id:6, tls switch[1](0:disable, 1:enable), tls alarm time threshold[60]days")
    (finding,) = told(tool.host()).findings
    assert (finding.code, finding.severity) == ("hccn-config.tls-differs", Severity.ERROR)
    assert finding.fix is not None
    assert finding.fix.commands == (f"{tool.place} -i 6 -tls -s enable 0",)
    assert finding.fix.undo == (f"{tool.place} -i 6 -tls -s enable 1",)
    for n in range(8):
        tool.says(n, "tls", f"dev_id:{n}, tls switch[1](0:disable, 1:enable)")
    assert told(tool.host()).codes == []


def test_what_the_file_says_is_not_what_the_port_has(tool: Tool) -> None:
    (finding,) = told(tool.host(file(address_4="198.51.100.99"))).findings
    assert finding.code == "hccn-config.not-applied"
    assert finding.evidence == ("address_4=198.51.100.99 (hccn_tool: 198.51.100.14)",)
    assert finding.fix is not None
    assert finding.fix.commands == (f"{tool.place} -i 4 -cfg recovery",)
    assert told(tool.host(file(address_4="198.51.100.99", udhcpc_enable_4="1"))).codes == []
    tool.says(4, "ip", "ipaddr:192.0.2.4\nnetmask:255.255.255.0\nipaddr:198.51.100.14\nnetmask:255.255.255.0")
    assert "hccn-config.not-applied" not in told(tool.host(file())).codes, "a port may have several addresses"


def test_gateway(tool: Tool) -> None:
    tool.says(1, "gateway", "default gateway:203.0.113.1, Iface:eth1")
    (finding,) = told(tool.host()).findings
    assert finding.code == "hccn-config.gateway"
    assert "198.51.100.11/255.255.255.0 -> 203.0.113.1" in finding.message


@pytest.mark.parametrize(
    "changes",
    [
        {"address_0": "198.51.100.300"},
        {"netmask_0": "255.0.255.0"},
        {"gateway_0": "none"},
        {"netdetect_0": "x"},
    ],
)
def test_values_that_are_none(changes: dict[str, str]) -> None:
    files = {**nodes(0, 1), **file([0, 1], **changes)}
    (finding,) = told(fake_host(files)).findings
    assert finding.code == "hccn-config.bad-value"
    ((key, value),) = changes.items()
    assert f"{key}={value}" in finding.message


def test_values_that_are_given_twice() -> None:
    twice = str(file([0])["/etc/hccn.conf"]) + "address_0=192.0.2.7\nroute_0=a\nroute_0=b\n"
    (finding,) = told(fake_host({**nodes(0), "/etc/hccn.conf": twice})).findings
    assert finding.code == "hccn-config.clash"
    assert "route" not in finding.message


def test_devices_that_are_not_ours_do_not_matter(tool: Tool) -> None:
    """In a container with some of the NPUs, the file tells of all."""
    asked = told(tool.host({**file(address_7="198.51.100.10", address_6="x"), **CONTAINER}, devices=[0, 1]))
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert len(tool.asked()) == 14


@pytest.mark.parametrize("script", ["exec sleep 1000\n", "echo nothing\n", "exit 3\n", "kill -KILL $$\n"])
def test_cannot_tell_where_one_does_not_answer(tool: Tool, script: str) -> None:
    tool.does(3, "link", script)
    tool.says(5, "link", "link status: DOWN")
    began = time.monotonic()
    asked = told(tool.host(timeout=2.5))
    assert time.monotonic() - began < 7
    assert (asked.status, asked.advisory, codes(asked)) == (Status.UNKNOWN, False, ["link-down"])
    assert "-i 3 -link -g" in asked.reason


def test_a_tool_that_refuses_everything(tool: Tool) -> None:
    for n in range(8):
        for question in ("ip", "link", "net_health", "netdetect", "gateway", "tls"):
            tool.says(n, question, "Command execute failed!", 1)
    asked = told(tool.host())
    assert (asked.status, asked.advisory, asked.codes) == (Status.UNKNOWN, False, [])
    assert "(+45)" in asked.reason
    assert told(tool.host(CONTAINER)).advisory


def test_slow_tools_cost_the_longest_chain(tmp_path: Path) -> None:
    tool = Tool(tmp_path, seconds=0.1)
    began = time.monotonic()
    assert told(tool.host(file())).status is Status.OK
    assert time.monotonic() - began < 8 * 6 * 0.1, "not one after the other"


def test_left_out_of_the_profile_quick() -> None:
    assert not hccn_config.quick


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(hccn_config, fake_host())
    yield ask(hccn_config, fake_host(nodes(0)))
    yield ask(hccn_config, fake_host({**nodes(0), **card("0xd500")}))
    twice = "address_0=192.0.2.1\naddress_0=192.0.2.2\naddress_1=nowhere\n"
    yield ask(hccn_config, fake_host({**nodes(0, 1), "/etc/hccn.conf": twice}))
    yield from _tools(tmp)


def _tools(tmp: Path) -> Iterator[Asked]:
    tool = Tool(tmp / "ill")
    tool.says(1, "ip", "ipaddr:198.51.100.10\nnetmask:255.255.255.0")
    tool.says(2, "ip", "")
    tool.says(3, "gateway", "default gateway:203.0.113.1, Iface:eth3")
    tool.says(4, "link", "link status: DOWN")
    tool.says(4, "net_health", "net health status: Fault")
    tool.says(5, "tls", "dev_id:5, tls switch[1](0:disable, 1:enable)")
    tool.does(6, "tls", "exec sleep 1000\n")
    tool.does(7, "link", "yes\n")
    tool.does(7, "tls", "exit 3\n")
    yield ask(hccn_config, tool.host(file(address_7="198.51.100.70", netmask_6="x"), timeout=2.5))
    for more in ({"euid": 1000}, {"files": card("0xd806")}, {"files": {"/etc/hccn.conf": unreadable()}}):
        yield ask(hccn_config, tool.host(timeout=2.5, **more))
    yield ask(hccn_config, tool.host(file(address_3=""), timeout=2.5))
    for number in range(8):
        tool.says(number, "ip", "")
    yield ask(hccn_config, tool.host(peers=PEERS, timeout=2.5))
    gone = Tool(tmp / "gone", [0])
    host = gone.host({**CONTAINER, "/dev/davinci1": device()})
    gone.place.unlink()
    yield ask(hccn_config, host)
