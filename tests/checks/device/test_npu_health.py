"""npu-health: every NPU says that its health is OK."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.checks.device import npu_machine as npu
from tests.checks.device.npu_machine import CONTAINER, INFO, health, screen, told
from tests.checks.device.test_device_nodes import nodes

from npudoctor import Action, Severity, Status
from npudoctor.checks.device.npu_health import npu_health
from npudoctor.host.process.commands import CommandResult
from npudoctor.testing import Asked, ask, fake_host

ILL = screen("c_910b2_24.1.0_alarm")
ALARM = {health(1): screen("health_alarm"), health(2): npu.USAGE}


@pytest.mark.parametrize(
    "name",
    ["a_910a_1.8.19", "c_910b2_24.1.0_idle", "d_a3_25.0.1_idle", "e_310p_24.1.1_two_chips", "g_950_26.1.0"],
)
def test_quiet_when_well(name: str) -> None:
    answer = told(npu_health, screen(name))
    assert (answer.status, answer.findings) == (Status.OK, ())


def test_a_chip_that_is_well_is_asked_no_more() -> None:
    host = fake_host({**nodes(), **CONTAINER}, commands={INFO: screen("c_910b2_24.1.0_idle")})
    ask(npu_health, host)
    assert host.commands.asked == [INFO]  # type: ignore[attr-defined]


def test_each_level() -> None:
    answer = told(npu_health, ILL, commands=ALARM)
    assert [(one.code, one.severity, one.device) for one in answer.findings] == [
        ("npu-health.alarm", Severity.ERROR, "NPU 1"),
        ("npu-health.critical", Severity.ERROR, "NPU 2"),
        ("npu-health.warning", Severity.WARNING, "NPU 4"),
    ]
    assert [one.action for one in answer.findings] == [Action.ISOLATE, Action.ISOLATE, Action.NONE]
    assert "80E18402 80CD8006" in answer.findings[0].message
    assert "Multi bit ECC" in answer.findings[0].evidence[0]
    assert answer.findings[1].evidence == ("more: npu-smi info -t health -i 2 -c 0",)


def test_others_devices_are_not_this_containers_trouble() -> None:
    assert told(npu_health, ILL, CONTAINER, count=1).status is Status.OK
    assert "npu-health.alarm" in told(npu_health, ILL, CONTAINER, count=2).codes
    assert "npu-health.alarm" in told(npu_health, ILL, count=1).codes


def test_a_chip_that_does_not_say_how_it_is() -> None:
    """What was found of the others is kept."""
    answer = told(npu_health, ILL, commands=ALARM)
    assert (answer.status, answer.advisory) == (Status.UNKNOWN, False)
    assert answer.reason == "npu-smi does not report the health of NPU 3: UNKNOWN"
    for word in ("Gut", "  "):
        text = screen("c_910b2_24.1.0_idle").replace("OK", word)
        assert told(npu_health, text).status is Status.UNKNOWN


def test_no_answer_about_one_chip_hides_no_alarm() -> None:
    question = health(1)
    for answer in (
        CommandResult(question, "timeout"),
        CommandResult(question, "exited", 0, "?"),
        npu.NO_DRIVER,
    ):
        codes = told(npu_health, ILL, commands={question: answer}).codes
        assert codes == ["npu-health.alarm", "npu-health.critical", "npu-health.warning"]


def test_each_era_is_asked_in_its_own_words() -> None:
    text = screen("g_950_26.1.0").replace("OK ", "Alarm", 1)
    question = ("npu-smi", "info", "-t", "health", "-i", "0")
    (finding,) = told(npu_health, text, commands={question: screen("health_alarm")}).findings
    assert "80E18402" in finding.message
    two = screen("d_a3_25.0.1_idle").split("| OK ")
    text = "| OK ".join(two[:2]) + "| Alarm" + "| OK ".join(two[2:])[2:]
    (finding,) = told(npu_health, text, commands={health(0, 1): screen("health_alarm")}).findings
    assert (finding.device, "80E18402" in finding.message) == ("NPU 0 chip 1", True)


@pytest.mark.parametrize("answer", [None, npu.NO_DRIVER, "?", CommandResult(INFO, "timeout")])
def test_cannot_tell(answer: object) -> None:
    """npu-tool says why; a container need not be given the tool."""
    seen = told(npu_health, answer)  # type: ignore[arg-type]
    assert (seen.status, seen.advisory) == (Status.UNKNOWN, answer is None)
    hung = isinstance(answer, CommandResult) and answer.ended == "timeout"
    seen = told(npu_health, answer, CONTAINER)  # type: ignore[arg-type]
    assert (seen.status, seen.advisory) == (Status.UNKNOWN, not hung)


def test_what_a_user_may_not_ask_is_not_the_nodes_fault() -> None:
    for answer in (npu.NO_RIGHTS, CommandResult(INFO, "not-started")):
        assert told(npu_health, answer, euid=1000, user="alice").advisory
        assert not told(npu_health, answer).advisory


def test_skipped() -> None:
    assert ask(npu_health, fake_host()).status is Status.SKIPPED
    assert told(npu_health, None, root="/srv/image").reason == "an image is not running"
    assert not npu_health.quick


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(npu_health, fake_host())
    yield told(npu_health, None)
    yield told(npu_health, screen("c_910b2_24.1.0_alarm"), commands={health(1): screen("health_alarm")})
