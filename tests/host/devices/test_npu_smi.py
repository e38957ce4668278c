"""npu-smi as a program: whatever it does, an answer comes in time, and each question is asked once."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.checks.device import npu_machine as npu
from tests.checks.device.npu_machine import SCREENS, screen

from npudoctor import Severity, Status
from npudoctor.checks.device.npu_tool import npu_tool
from npudoctor.host import Host, Options
from npudoctor.host.devices.accelerators import Accelerators
from npudoctor.testing import Asked, Node, ask, fake_host, folder

MINE = Accelerators("npu", ("/dev/davinci0",), (), (), None)
# A process that waits for its child to exec is in state D; a kill ends it all the same.
# The base's Python: the kernel takes no path with a blank, nor a long one, behind "#!".
STUCK = f"""#!{os.path.realpath(sys.executable)}
import ctypes, time
libc = ctypes.CDLL(None)
libc.syscall({220 if platform.machine() == "aarch64" else 56}, 0x4000 | 17, 0, 0, 0, 0)
time.sleep(60)
"""


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[str], Path]:
    def make(script: str) -> Path:
        path = tmp_path / "npu-smi"
        path.write_text(f"#!/bin/sh\necho \"$@\" >>'{tmp_path}/asked'\n{script}\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(Options(timeout=2.0), variables={"PATH": str(tmp_path)}, npus=MINE)
    yield made
    made.close()


def judged(host: Host) -> Asked:
    started = time.monotonic()
    answer = ask(npu_tool, host)
    assert time.monotonic() - started < 2 * host.options.timeout
    return answer


def test_a_table(tool: Callable[[str], Path], host: Host) -> None:
    path = tool(f"cat '{SCREENS}/c_910b2_24.1.0_idle.txt'")
    answer = judged(host)
    assert (answer.status, answer.findings) == (Status.OK, ())
    assert (answer.facts["path"], answer.facts["tool"]) == (str(path), "24.1.0")


def test_a_failure_with_status_0(tool: Callable[[str], Path], host: Host) -> None:
    tool(f"printf '{npu.NO_DRIVER}'")
    (finding,) = judged(host).findings
    assert finding.code == "npu-tool.driver-not-ready"


def test_a_table_with_another_status(tool: Callable[[str], Path], host: Host) -> None:
    tool(f"cat '{SCREENS}/a_910a_1.8.19.txt'; exit 3")
    assert judged(host).status is Status.OK


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("kill -9 $$", "signal 9"),
        ("yes npu | head -c 1000000000", "does not stop printing"),
        ("head -c 1000000000 /dev/zero", "does not stop printing"),
        ("sleep 60", "attempts: 2"),
        ("sleep 60 & exec 1>&- 2>&-; wait", "attempts: 2"),
        ("exit 7", "its exit status is 7"),
        ("echo 找不到设备; echo Gerät nicht gefunden >&2", "npudoctor does not know"),
        ("head -c 300000 /dev/urandom", "npudoctor does not know"),
        # A shell that starts something waits in state D for a moment, which is what a hung driver looks like.
        ("trap '' TERM; while :; do :; done", "attempts: 2"),
    ],
)
def test_it_may_do_what_it_likes(tool: Callable[[str], Path], host: Host, script: str, reason: str) -> None:
    tool(script)
    answer = judged(host)
    # A tool that hangs would hang the job as well, also in a container.
    advisory = bool(host.system.container()) and "attempts: 2" not in reason
    assert (answer.status, answer.advisory) == (Status.UNKNOWN, advisory)
    assert reason in answer.reason
    assert {finding.weight for finding in answer.findings} <= {Severity.INFO}


def test_the_text_of_an_unknown_layout_is_kept(tool: Callable[[str], Path], host: Host) -> None:
    tool("echo 'NPU 0: fine'")
    (finding,) = judged(host).findings
    assert (finding.code, finding.evidence) == (
        "npu-tool.unknown-answer",
        ("npu-smi printed: NPU 0: fine",),
    )


def test_one_that_may_not_be_run(tool: Callable[[str], Path], host: Host) -> None:
    tool("true").write_text("#!/no/such/interpreter\n")
    assert judged(host).status is Status.UNKNOWN


def test_hung_twice_with_a_driver_process_in_state_d(
    tool: Callable[[str], Path], host: Host, tmp_path: Path
) -> None:
    tool("sleep 60")
    other = tmp_path / "other" / "npu-smi"
    other.parent.mkdir()
    other.write_text(STUCK)
    other.chmod(0o755)
    stuck = subprocess.Popen([str(other)], start_new_session=True)
    try:
        while Path(f"/proc/{stuck.pid}/stat").read_text().rpartition(")")[2].split()[0] != "D":
            time.sleep(0.01)
        answer = judged(host)
    finally:
        os.killpg(stuck.pid, 9)
        stuck.wait()
    (finding,) = answer.findings
    assert (finding.code, finding.weight, finding.action.value) == ("npu-tool.hung", Severity.ERROR, "reboot")
    assert f"pid {stuck.pid} (npu-smi)" in finding.message
    assert (tmp_path / "asked").read_text() == "info\ninfo\n"


def test_slow_once_is_not_hung(tool: Callable[[str], Path], host: Host, tmp_path: Path) -> None:
    tool(f"[ -e {tmp_path}/again ] || {{ touch {tmp_path}/again; sleep 60; }}; "
         f"cat '{SCREENS}/c_910b2_24.1.0_idle.txt'")  # fmt: skip
    assert judged(host).status is Status.OK


def test_each_question_is_asked_once_whoever_asks(
    tool: Callable[[str], Path], host: Host, tmp_path: Path
) -> None:
    tool(f"sleep 0.1; cat '{SCREENS}/c_910b2_24.1.0_idle.txt'")
    threads = [threading.Thread(target=host.npu_smi.look) for _number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "asked").read_text() == "info\n"


def test_devices_are_asked_side_by_side(tool: Callable[[str], Path], host: Host, tmp_path: Path) -> None:
    tool(f"sleep 0.5; cat '{SCREENS}/health_alarm.txt'")
    started = time.monotonic()
    told = host.npu_smi.health([(number, 0) for number in range(8)])
    assert time.monotonic() - started < 3.5
    assert [one and one.status for one in told] == ["Alarm"] * 8
    host.npu_smi.health([(0, 0), (1, 0)])
    asked = (tmp_path / "asked").read_text().splitlines()
    assert sorted(asked) == [f"info -t health -i {number} -c 0" for number in range(8)]


def test_where_it_is_found() -> None:
    tools = "/usr/local/Ascend/driver/tools/npu-smi"
    runs = Node(permissions=0o555)
    assert fake_host().npu_smi.program() is None
    assert fake_host({tools: runs}, variables={"PATH": "/opt/bin"}).npu_smi.program() == tools
    by_path = fake_host({"/opt/bin/npu-smi": runs}, variables={"PATH": "bin:/opt/bin"})
    assert by_path.npu_smi.program() == "/opt/bin/npu-smi"
    foreign = Options(foreign_variables=True)
    strange = fake_host({"/opt/bin/npu-smi": runs}, variables={"PATH": "/opt/bin"}, options=foreign)
    assert strange.npu_smi.program() is None
    assert fake_host(commands={"npu-smi": screen("a_910a_1.8.19")}).npu_smi.program() == "/usr/bin/npu-smi"


def test_it_gets_the_drivers_own_libraries() -> None:
    driver = "/usr/local/Ascend/driver"
    host = fake_host({f"{driver}/lib64/{part}": folder() for part in ("common", "driver")})
    assert host.npu_smi._environment()["LD_LIBRARY_PATH"] == (
        f"{driver}/lib64/common:{driver}/lib64/driver:{driver}/lib64"
    )
    assert "LD_LIBRARY_PATH" not in fake_host().npu_smi._environment()
