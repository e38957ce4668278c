"""The limit of open files: quiet, information, warning; the one of a real process."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Optional

import pytest

from npudoctor import Status
from npudoctor.checks.host.file_limits import file_limits
from npudoctor.host import Host, Options
from npudoctor.testing import Asked, ask, fake_host, unreadable

HEAD = "Limit                     Soft Limit           Hard Limit           Units     \n"


def told(soft: str, hard: str, euid: int = 0) -> Asked:
    rows = "Max processes             1                    2                    processes \n"
    row = f"Max open files            {soft:<20} {hard:<20} files     \n"
    return ask(file_limits, fake_host({"/proc/self/limits": HEAD + rows + row}, euid=euid))


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
        ("4096", "ulimit -SHn 512000", True),
    ],
)
def test_the_line_that_would_do(hard: str, line: str, needs_root: bool) -> None:
    (finding,) = told("1024", hard, euid=1000).findings
    assert finding.fix is not None
    assert (finding.fix.commands, finding.fix.needs_root) == ((line,), needs_root)


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
