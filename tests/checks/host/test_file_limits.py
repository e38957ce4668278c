"""The limit of open files: quiet, information, warning; the one of a real process."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Optional

import pytest

from npudoctor import Status
from npudoctor.checks.host.file_limits import LIMITS, file_limits
from npudoctor.host import Host, Options
from npudoctor.testing import Asked, ask, fake_host, unreadable

ROWS = r"* - nofile 512000\nroot - nofile 512000\n"
LINE = f"""sh -c 'printf "{ROWS}" > /etc/security/limits.d/90-npudoctor.conf'"""
HEAD = "Limit                     Soft Limit           Hard Limit           Units     \n"


def told(soft: str, hard: str, euid: int = 0, *more: str) -> Asked:
    rows = "Max processes             1                    2                    processes \n"
    row = f"Max open files            {soft:<20} {hard:<20} files     \n"
    return ask(
        file_limits, fake_host({"/proc/self/limits": HEAD + rows + row, **dict.fromkeys(more, "")}, euid=euid)
    )


@pytest.mark.parametrize(
    ("soft", "code", "status"),
    [
        ("1024", "file-limits.low", Status.PROBLEM),
        ("4095", "file-limits.low", Status.PROBLEM),
        ("4096", "file-limits.below-guide", Status.OK),
        ("65535", "file-limits.below-guide", Status.OK),
        ("65536", None, Status.OK),
        ("unlimited", None, Status.OK),
    ],
)
def test_how_loud_it_is(soft: str, code: Optional[str], status: Status) -> None:
    asked = told(soft, "unlimited")
    assert (asked.codes, asked.status) == ([code] if code else [], status)


@pytest.mark.parametrize(
    ("hard", "line", "needs_root"),
    [
        ("1048576", "ulimit -Sn 512000", False),
        ("unlimited", "ulimit -Sn 512000", False),
        ("65536", "ulimit -Sn 65536", False),
        ("4096", LINE, True),
    ],
)
def test_the_line_that_would_do(hard: str, line: str, needs_root: bool) -> None:
    (finding,) = told("1024", hard, euid=1000).findings
    assert finding.fix is not None
    assert (finding.fix.commands, finding.fix.needs_root) == ((line,), needs_root)


def test_root_gets_the_same_line_for_the_sessions_to_come() -> None:
    (finding,) = told("1024", "4096").findings
    assert finding.fix is not None
    assert finding.fix.commands == (LINE,)
    assert finding.fix.undo == ("rm -- /etc/security/limits.d/90-npudoctor.conf",)


def test_the_line_writes_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "limits.conf"
    subprocess.run(["bash", "-c", LINE.replace(LIMITS, str(file))], cwd="/", check=True)
    assert file.read_text() == "* - nofile 512000\nroot - nofile 512000\n"


def test_a_container_is_made_anew() -> None:
    (finding,) = told("1024", "4096", 1000, "/.dockerenv").findings
    assert finding.fix is not None and finding.fix.commands == ()
    assert "docker run --ulimit nofile=512000:512000" in finding.fix.title
    (finding,) = told("1024", "1048576", 1000, "/.dockerenv").findings
    assert finding.fix is not None and finding.fix.commands == ("ulimit -Sn 512000",)


def test_cannot_tell() -> None:
    assert ask(file_limits, fake_host({"/proc/self/limits": HEAD})).status is Status.UNKNOWN
    assert ask(file_limits, fake_host({"/proc/self/limits": unreadable()})).status is Status.UNKNOWN
    assert ask(file_limits, fake_host(root="/image")).status is Status.SKIPPED


def test_the_limit_of_a_real_process() -> None:
    def fewer() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))

    command = [sys.executable, "-c", "print(flush=True); input()"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, preexec_fn=fewer) as process:
        assert process.stdout is not None
        process.stdout.readline()
        asked = ask(file_limits, Host(Options(env_of=process.pid)))
        process.communicate(b"\n")
    assert asked.facts == {"soft": 64, "hard": 128}
    assert asked.codes == ["file-limits.low"]
