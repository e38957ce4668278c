"""cpu-governor: performance, others, several at once, none to set."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.checks.tuning.tuned_machine import CONTAINER, judge

from npudoctor import Severity, Status
from npudoctor.checks.tuning.cpu_governor import POLICIES, cpu_governor
from npudoctor.testing import Asked, Content, unreadable


def _policies(*governors: str) -> dict[str, Content]:
    return {
        f"{POLICIES}/policy{number}/scaling_governor": f"{name}\n" for number, name in enumerate(governors)
    }


def scene(tmp: Path) -> Iterator[Asked]:
    """Each way of putting it."""
    yield judge(cpu_governor, _policies("powersave", "performance"))
    yield judge(cpu_governor, {**_policies("powersave"), **CONTAINER})
    yield judge(cpu_governor, {})
    yield judge(cpu_governor, {POLICIES: unreadable()})


def test_quiet_at_full_speed() -> None:
    asked = judge(cpu_governor, _policies("performance", "performance"))
    assert (asked.status, asked.codes, asked.facts) == (Status.OK, [], {"governors": ["performance"]})


def test_a_saving_governor_is_information_with_both_lines() -> None:
    (finding,) = judge(cpu_governor, _policies("schedutil", "schedutil")).findings
    assert (finding.code, finding.severity) == ("cpu-governor.saves-power", Severity.INFO)
    assert "schedutil" in finding.message and finding.fix is not None
    place = f"{POLICIES}/policy*/scaling_governor"
    assert finding.fix.commands == (f"sh -c 'echo performance | tee {place}'",)
    assert finding.fix.undo_commands == (f"sh -c 'echo schedutil | tee {place}'",)


@pytest.mark.parametrize("before", [["powersave"] * 3, ["powersave", "performance", "ondemand"]])
def test_the_lines_do_what_they_say_and_back(tmp_path: Path, before: list[str]) -> None:
    """In a folder of ours instead of the kernel's."""
    (finding,) = judge(cpu_governor, _policies(*before)).findings
    files = [tmp_path / f"policy{number}" / "scaling_governor" for number in range(3)]
    for file, governor in zip(files, before):
        file.parent.mkdir()
        file.write_text(f"{governor}\n")
    assert finding.fix is not None and shutil.which("sh")
    for lines, then in ((finding.fix.commands, ["performance"] * 3), (finding.fix.undo_commands, before)):
        for line in lines:
            subprocess.run(["sh", "-c", line.replace(POLICIES, str(tmp_path))], check=True)
        assert [file.read_text().strip() for file in files] == then


def test_a_container_is_told_where_to_type_it() -> None:
    (finding,) = judge(cpu_governor, {**_policies("powersave"), **CONTAINER}).findings
    assert finding.fix is not None and finding.fix.title.startswith("on the host")


def test_skipped_where_the_kernel_sets_none() -> None:
    assert judge(cpu_governor, {}).status is Status.SKIPPED
    assert judge(cpu_governor, _policies("powersave"), expect="none").status is Status.SKIPPED


def test_cannot_tell() -> None:
    assert judge(cpu_governor, {POLICIES: unreadable()}).status is Status.UNKNOWN
