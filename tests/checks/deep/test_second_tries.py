"""What crashes is tried again, what hangs is not."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.deep.framework_imports import framework_imports
from npudoctor.checks.deep.framework_selftest import framework_selftest
from npudoctor.host.process.commands import CommandResult
from npudoctor.testing import ask

from .probe_machine import asked, died, dies_too_late, each, machine, package

WELL = {"versions": {"torch": "2.13.0"}, "seconds": 1.0, "bytes": 1}


HUNG = CommandResult((), "timeout", seconds=120.0)


def test_one_death_is_a_warning() -> None:
    told = asked(framework_imports, each(died(signal.SIGABRT), WELL), "torch")
    (finding,) = told.findings
    assert (finding.code, finding.severity) == ("framework-imports.died-once", Severity.WARNING)
    assert "import torch: killed by signal 6 (SIGABRT) on the first try" in finding.message
    assert told.facts["versions"] == {"torch": "2.13.0"}


def test_two_deaths_are_an_error() -> None:
    (finding,) = asked(framework_imports, each(died(signal.SIGSEGV), died(signal.SIGABRT)), "torch").findings
    assert (finding.code, finding.severity) == ("framework-imports.failed", Severity.ERROR)
    assert "killed by signal 11" in finding.message


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_is_killed_from_outside_is_not_tried_again(number: int) -> None:
    (finding,) = asked(framework_imports, each(died(number)), "torch").findings
    assert finding.code == "framework-imports.failed"


def test_cannot_tell_without_time_for_a_second_try() -> None:
    told = dies_too_late(framework_imports)
    assert (told.status, told.codes) == (Status.UNKNOWN, ["framework-imports.died-once"])
    assert "there was no time to try again" in told.findings[0].message


def test_a_self_test_that_dies_once() -> None:
    told = asked(framework_selftest, each(WELL, died(signal.SIGABRT), WELL), "torch")
    assert told.codes == ["framework-selftest.died-once"]
    assert list(told.facts["seconds"]) == ["torch on cpu"]  # type: ignore[call-overload]


def test_what_dies_of_our_ways_alone_lives_without_them(site: Path) -> None:
    """The second try has none of what notes where the first one was."""
    package(site, "torch", "import os, sys\nif 'faulthandler' in sys.modules: os.kill(os.getpid(), 11)")
    host = machine(site)
    told = ask(framework_imports, host)
    host.close()
    assert told.codes == ["framework-imports.died-once"]


def test_where_logs_go_is_not_told_to_whom_it_was_not_told(site: Path) -> None:
    package(site, "torch", "import os\nassert 'GLOG_log_dir' not in os.environ")
    host = machine(site)
    assert ask(framework_imports, host).codes == []
    host.close()


def test_a_death_at_the_end_of_python(site: Path) -> None:
    package(site, "torch", "import atexit, os\natexit.register(os.kill, os.getpid(), 11)")
    host = machine(site)
    (finding,) = ask(framework_imports, host).findings
    host.close()
    assert "killed by signal 11 (SIGSEGV) when Python exited, after everything had worked" in finding.message


def test_what_begins_with_an_import_that_hangs_is_not_waited_for() -> None:
    seen: list[object] = []
    told = asked(framework_imports, each(HUNG, seen=seen), "torch", "torchvision", "torch-npu")
    (finding,) = told.findings
    assert finding.message.startswith("import torch, torch_npu, torchvision fails: no answer within 120 s")
    assert seen == [("torch",)]


def test_a_self_test_does_not_wait_for_an_import_that_hangs() -> None:
    seen: list[object] = []
    (finding,) = asked(framework_selftest, each(HUNG, seen=seen), "torch").findings
    assert (finding.code, finding.echo_of) == ("framework-selftest.failed", ("framework-imports.failed",))
    assert seen == [("torch",)]


@pytest.mark.parametrize("installed", [True, False])
def test_numpy_is_asked_for_where_it_is_installed(installed: bool) -> None:
    seen: list[object] = []
    names = ("torch", "numpy") if installed else ("torch",)
    assert asked(framework_selftest, each(WELL, WELL, seen=seen), *names).codes == []
    assert seen[1] == (("torch", "cpu") if installed else ("torch", "cpu", "without-numpy"))
