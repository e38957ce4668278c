"""npu-tool: npu-smi is installed and answers. A real program: tests/host/devices/test_npu_smi.py."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.checks.device import npu_machine as npu
from tests.checks.device.npu_machine import CONTAINER, INFO, exited, screen, told

from npudoctor import Action, Severity, Status
from npudoctor.checking.check import Check
from npudoctor.checks.device.npu_busy import npu_busy
from npudoctor.checks.device.npu_health import npu_health
from npudoctor.checks.device.npu_tool import npu_tool
from npudoctor.host.process.commands import CommandResult
from npudoctor.testing import Asked, ask, fake_host, process_files, unreadable

STUCK = process_files(4711, "npu-smi", state="D")
HUNG = CommandResult(INFO, "timeout")


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(npu_tool, fake_host())
    for failure in (npu.NO_DRIVER, npu.NO_RIGHTS, npu.USED, npu.NO_LIBRARY, npu.NO_CARD, npu.USAGE):
        yield told(npu_tool, failure)
        yield told(npu_tool, failure, CONTAINER)
    yield told(npu_tool, npu.NOT_READY)
    yield told(npu_tool, None)
    yield told(npu_tool, None, CONTAINER)
    yield told(npu_tool, HUNG, STUCK)
    yield told(npu_tool, screen("d_a3_25.0.1_idle") + npu.INCOMPLETE, count=9)
    ends = ("timeout", None), ("flooded", None), ("untrusted", None), ("not-started", None), ("exited", -9)
    for ended, status in ends:
        yield told(npu_tool, CommandResult(INFO, ended, status))
    yield told(npu_tool, exited(""))
    yield told(npu_tool, exited("Bonjour"))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("a_910a_1.8.19", 4),
        ("b_910a_21.0.3", 4),
        ("c_910b2_24.1.0_idle", 8),
        ("d_a3_25.0.1_idle", 8),
        ("e_310p_24.1.1_two_chips", 2),
        ("f_910b3_26.0.0_busy", 2),
        ("g_950_26.1.0", 2),
    ],
)
def test_quiet_with_a_table(name: str, count: int) -> None:
    answer = told(npu_tool, screen(name), count=count)
    assert (answer.status, answer.findings) == (Status.OK, ())
    assert len(answer.facts["chips"]) == count  # type: ignore[arg-type]


def test_quiet_in_a_container_that_shows_fewer() -> None:
    assert told(npu_tool, screen("e_310p_24.1.1_two_chips"), CONTAINER, count=8).codes == []


def test_quick_asks_no_slow_tool() -> None:
    assert not npu_tool.quick


@pytest.mark.parametrize(
    ("text", "code", "severity", "inside"),
    [
        (npu.NO_DRIVER, "npu-tool.driver-not-ready", Severity.ERROR, Severity.WARNING),
        (npu.USED, "npu-tool.device-used", Severity.ERROR, Severity.ERROR),
        (npu.NO_RIGHTS, "npu-tool.no-rights", Severity.WARNING, Severity.WARNING),
        (npu.NO_LIBRARY, "npu-tool.library-missing", Severity.WARNING, Severity.WARNING),
        (npu.NO_CARD, "npu-tool.no-card", Severity.WARNING, Severity.WARNING),
        (npu.USAGE, "npu-tool.failed", Severity.WARNING, Severity.WARNING),
        (npu.NOT_READY, "npu-tool.failed", Severity.WARNING, Severity.WARNING),
    ],
)
@pytest.mark.parametrize("status", [0, 187])
def test_failures(text: str, code: str, severity: Severity, inside: Severity, status: int) -> None:
    """Whatever the exit status is, and on whichever stream it is said."""
    for answer in (exited(text, status), exited("", status, text)):
        (finding,) = told(npu_tool, answer).findings
        assert (finding.code, finding.severity) == (code, severity)
        assert finding.evidence == tuple(f"npu-smi printed: {line}" for line in text.splitlines())
    (finding,) = told(npu_tool, exited(text, status), CONTAINER).findings
    assert finding.severity is inside


def test_what_a_code_means() -> None:
    (finding,) = told(npu_tool, npu.NOT_READY).findings
    assert "-9005 (no ready device)" in finding.message


def test_a_user_without_rights_is_told_of_it_by_device_nodes() -> None:
    for text in (npu.NO_RIGHTS, npu.NO_DRIVER):
        (finding,) = told(npu_tool, text).findings
        assert "device-nodes.no-access" in finding.echo_of


def test_hung() -> None:
    (finding,) = told(npu_tool, HUNG, STUCK).findings
    assert (finding.code, finding.severity) == ("npu-tool.hung", Severity.ERROR)
    assert finding.action is Action.REBOOT
    assert "pid 4711 (npu-smi)" in finding.message


@pytest.mark.parametrize("node", ["/dev/davinci3", "/dev/hisi_hdc"])
def test_hung_with_a_job_that_is_stuck_in_the_driver(node: str) -> None:
    job = process_files(4711, "python3", state="D", descriptors={3: node})
    (finding,) = told(npu_tool, HUNG, job).findings
    assert "pid 4711 (python3)" in finding.message


@pytest.mark.parametrize(
    "process",
    [
        process_files(4711, "npu-smi", state="S"),
        process_files(4711, "python3", state="D"),
        process_files(4711, "python3", state="D", descriptors={3: "/mnt/nfs/data"}),
        process_files(4711, "python3", state="S", descriptors={3: "/dev/davinci3"}),
    ],
)
def test_no_answer_for_another_reason_is_unknown(process: dict) -> None:  # type: ignore[type-arg]
    answer = told(npu_tool, HUNG, process)
    assert (answer.status, answer.codes, answer.advisory) == (Status.UNKNOWN, [], False)
    assert "attempts: 2" in answer.reason


def test_a_card_has_dropped_out() -> None:
    (finding,) = told(npu_tool, screen("d_a3_25.0.1_idle"), count=9).findings
    assert (finding.code, finding.severity) == ("npu-tool.fewer-devices", Severity.WARNING)
    assert (finding.device, finding.evidence) == ("/dev/davinci8", ("not shown: /dev/davinci8",))
    (finding,) = told(npu_tool, screen("b_910a_21.0.3"), count=8).findings
    assert (finding.device, finding.evidence) == (None, ())


def test_a_table_that_is_cut_does_not_say_how_many_there_are() -> None:
    lines = screen("c_910b2_24.1.0_idle").splitlines()
    assert told(npu_tool, "\n".join(lines[:10]), count=8).codes == []


def test_the_driver_is_perhaps_not_complete() -> None:
    answer = told(npu_tool, screen("e_310p_24.1.1_two_chips") + npu.INCOMPLETE)
    assert (answer.status, answer.codes) == (Status.OK, ["npu-tool.driver-incomplete"])


def test_not_found_is_no_problem_of_the_job() -> None:
    for parts in ((), (CONTAINER,)):
        answer = told(npu_tool, None, *parts)
        assert (answer.status, answer.codes) == (Status.OK, ["npu-tool.not-found"])


def test_an_answer_that_is_not_known_is_kept() -> None:
    answer = told(npu_tool, "NPU 0 ist gesund\n" * 100)
    assert answer.status is Status.UNKNOWN
    (finding,) = answer.findings
    assert finding.evidence == ("npu-smi printed: NPU 0 ist gesund",) * 40


def test_cannot_tell() -> None:
    for ended in ("flooded", "untrusted", "not-started"):
        answer = told(npu_tool, CommandResult(INFO, ended))
        assert (answer.status, answer.advisory) == (Status.UNKNOWN, False)
    answer = told(npu_tool, CommandResult(INFO, "not-started"), euid=1000, user="alice")
    assert (answer.status, answer.advisory) == (Status.UNKNOWN, True)
    assert ask(npu_tool, fake_host({"/dev": unreadable(errno.EACCES)})).status is Status.UNKNOWN


@pytest.mark.parametrize("check", [npu_tool, npu_health, npu_busy])
@pytest.mark.parametrize("answer", [HUNG, "NPU 0 ist gesund", CommandResult(INFO, "flooded"), ""])
def test_one_rule_for_all_that_ask_the_tool(check: Check, answer: object) -> None:
    """A container need not be given the tool; on a host it is to answer, and nowhere may it hang."""
    for parts, advisory in (((), False), ((CONTAINER,), answer is not HUNG)):
        asked = told(check, answer, *parts)  # type: ignore[arg-type]
        assert (asked.status, asked.advisory) == (Status.UNKNOWN, advisory)


@pytest.mark.parametrize("check", [npu_health, npu_busy])
@pytest.mark.parametrize("euid", [0, 1000])
def test_without_the_tool_nothing_is_needed_of_it(check: Check, euid: int) -> None:
    asked = told(check, None, euid=euid)
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, True)


@pytest.mark.parametrize("check", [npu_tool, npu_health, npu_busy])
def test_a_drivers_folder_that_is_closed_is_not_not_found(check: Check) -> None:
    path = "/usr/local/Ascend/driver/tools/npu-smi"
    closed = {"/usr/local/Ascend/driver/tools": unreadable(errno.EACCES), path: unreadable(errno.EACCES)}
    refused = {(path, "info"): CommandResult((path, "info"), "not-started")}
    asked = told(check, None, closed, commands=refused, euid=1000, user="alice")
    assert (asked.status, asked.codes, asked.advisory) == (Status.UNKNOWN, [], True)


def test_skipped() -> None:
    assert ask(npu_tool, fake_host()).status is Status.SKIPPED
    assert told(npu_tool, None, root="/srv/image").reason == "an image is not running"
