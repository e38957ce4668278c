"""The limit of open files: quiet, information, warning; the one of a real process."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

import pytest

from npudoctor import Risk, Status
from npudoctor.checks.host.file_limits import LIMITS, file_limits
from npudoctor.host import Host, Options
from npudoctor.testing import Asked, Content, Limit, ask, fake_host, folder, process_files

LINE = "printf '%s\\n' '* - nofile 512000' 'root - nofile 512000' > /etc/security/limits.d/90-npudoctor.conf"
PAM = "session    required   pam_limits.so\n"
LOGINS: dict[str, Content] = {
    "/etc/pam.d/sshd": PAM,
    "/etc/security/limits.d": folder(),
    "/proc/sys/fs/nr_open": "1048576\n",
}


def told(
    soft: str,
    hard: str,
    euid: int = 0,
    *more: str,
    files: Optional[Mapping[str, Content]] = None,
    variables: Optional[Mapping[str, str]] = None,
) -> Asked:
    given = {**LOGINS, **dict.fromkeys(more, ""), **(files or {})}
    user = "alice" if euid else "root"
    pair = [None if text == "unlimited" else int(text) for text in (soft, hard)]
    limits = {"Max processes": Limit(1, 2), "Max open files": Limit(*pair)}
    return ask(file_limits, fake_host(given, euid=euid, user=user, variables=variables, limits=limits))


@pytest.mark.parametrize(
    ("soft", "code", "status"),
    [
        ("4", "file-limits.unusable", Status.PROBLEM),
        ("31", "file-limits.unusable", Status.PROBLEM),
        ("32", "file-limits.low", Status.PROBLEM),
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
    assert (finding.fix.commands[0], finding.fix.needs_root) == (line, needs_root)


def test_root_gets_the_same_line_for_the_sessions_to_come() -> None:
    (finding,) = told("1024", "4096").findings
    assert finding.fix is not None
    assert finding.fix.commands[0] == LINE
    assert finding.fix.undo_commands == (f"rm -- {LIMITS}",)
    assert (finding.fix.risk, finding.fix.undoable) == (Risk.CAUTION, True)


CONF = "/etc/security/limits.conf"


@pytest.mark.parametrize(
    ("files", "euid", "code"),
    [
        ({LIMITS: "* - nofile 65536\n"}, 1000, "next-login"),
        ({LIMITS: "* - nofile 65536\n"}, 0, "low"),
        ({LIMITS: "root - nofile unlimited\n"}, 0, "next-login"),
        ({LIMITS: "* - nofile 65535\n"}, 1000, "low"),
        ({LIMITS: "* hard nofile 512000\n"}, 1000, "low"),
        ({CONF: "* - nofile 512000\n"}, 1000, "next-login"),
        ({CONF: "* - nofile 512000\n", "/etc/pam.d/sshd": "# " + PAM}, 1000, "low"),
        ({CONF: "* - nofile 512000\n", LIMITS: "* - nofile 1024\n"}, 1000, "low"),
        ({CONF: "* - nofile 512000\n", "/proc/self/cgroup": "0::/system.slice/job.service\n"}, 0, "low"),
    ],
    ids=str,
)
def test_what_the_next_login_gets(files: dict[str, Content], euid: int, code: str) -> None:
    asked = told("1024", "4096", euid, files=files)
    assert asked.codes == [f"file-limits.{code}"]
    (finding,) = asked.findings
    if code == "next-login":
        assert (asked.status, finding.fix) == (Status.OK, None)


@pytest.mark.parametrize(
    ("files", "title"),
    [
        ({"/etc/pam.d/sshd": "", "/etc/pam.d/su": PAM}, "logins on this machine do not read"),
        ({"/proc/sys/fs/nr_open": "1024\n"}, "first raise the kernel's limit"),
        ({"/proc/sys/fs/nr_open": "\n"}, "first raise the kernel's limit"),
        ({CONF: "alice hard nofile 4096\nalice soft nofile 1024\n"}, f"for alice in {CONF}"),
        ({CONF: "@hpc - nofile 4096\n", "/etc/group": "hpc:x:7:bob,alice\n"}, "change the setting for alice"),
        (
            {"/etc/security/limits.d/95-site.conf": "* - nofile 4096\n"},
            "change the setting for alice in /etc/security/limits.d/95-site.conf",
        ),
    ],
    ids=str,
)
def test_a_file_that_would_not_help_is_not_offered(files: dict[str, Content], title: str) -> None:
    (finding,) = told("1024", "4096", 1000, files=files).findings
    assert finding.fix is not None and title in finding.fix.title
    assert (finding.fix.commands, finding.fix.risk) == ((), Risk.MANUAL)


@pytest.mark.parametrize(
    ("groups", "variables", "command"),
    [
        ("0::/system.slice/train@1.service\n", {}, "systemctl edit train@1.service"),
        ("1:name=systemd:/system.slice/a.service/worker\n0::/\n", {}, "systemctl edit a.service"),
        ("0::/system.slice/slurmstepd.scope/job_7/step_0\n", {}, "systemctl edit slurmd.service"),
        ("0::/\n", {"SLURM_JOB_ID": "7"}, "systemctl edit slurmd.service"),
        ("0::/user.slice/user-0.slice/session-3.scope\n", {}, LINE),
        ("0::/user.slice/user-0.slice/user@0.service/app.slice/x.scope\n", {}, LINE),
        ("0::/system.slice/sshd.service\n", {}, LINE),
        ("0::/system.slice/sshd@3-1.2.3.4:22.service\n", {}, LINE),
    ],
)
def test_whose_limit_it_is(groups: str, variables: dict[str, str], command: str) -> None:
    (finding,) = told("1024", "4096", files={"/proc/self/cgroup": groups}, variables=variables).findings
    assert finding.fix is not None
    assert finding.fix.commands[0] == command
    assert finding.fix.risk is (Risk.CAUTION if command == LINE else Risk.MANUAL)


def test_no_more_is_asked_for_than_the_kernel_gives() -> None:
    """A session that asks for more than fs.nr_open is not opened at all."""
    (finding,) = told("1024", "4096", files={"/proc/sys/fs/nr_open": "100000\n"}).findings
    assert finding.fix is not None and "'* - nofile 100000'" in finding.fix.commands[0]


def test_of_another_process_its_user_counts() -> None:
    files: dict[str, Content] = {
        **LOGINS, CONF: "bob - nofile 512000\n", "/etc/passwd": "bob:x:1001:1::/:/bin/sh\n",
        **process_files(7, "bash", uid=1001),
    }  # fmt: skip
    host = fake_host(files, options=Options(env_of=7), limits={"Max open files": Limit(1024, 4096)})
    assert ask(file_limits, host).codes == ["file-limits.next-login"]


def test_a_container_is_started_with_more() -> None:
    (finding,) = told("1024", "4096", 1000, "/.dockerenv").findings
    assert finding.fix is not None and finding.fix.commands == ()
    assert finding.fix.title == "ask whoever starts the container to add --ulimit nofile=512000:512000"
    assert finding.fix.container == ("--ulimit", "nofile=512000:512000")
    (finding,) = told("1024", "1048576", 1000, "/.dockerenv").findings
    assert finding.fix is not None and finding.fix.commands == ("ulimit -Sn 512000",)


@pytest.mark.parametrize(
    ("files", "more"),
    [
        ({"/.dockerenv": ""}, "--ulimit nofile=512000:512000"),
        ({"/proc/self/cgroup": "0::/system.slice/train.service\n"}, "systemctl edit train.service"),
        ({"/proc/sys/fs/nr_open": "1024\n"}, "fs.nr_open"),
    ],
    ids=str,
)
def test_where_nobody_here_can_do_more_the_shell_goes_as_far_as_it_may(
    files: dict[str, Content], more: str
) -> None:
    (finding,) = told("1024", "20000", 1000, files=files).findings
    assert finding.fix is not None and more in finding.fix.title
    assert (finding.fix.commands, finding.fix.needs_root) == (("ulimit -Sn 20000",), False)
    assert told("20000", "20000", 1000, files=files).codes == ["file-limits.below-guide"]


def test_beside_a_file_for_later_logins_the_line_for_now_is_told() -> None:
    (finding,) = told("1024", "20000", 1000).findings
    assert finding.fix is not None and finding.fix.commands[0] == LINE
    assert finding.evidence[-1].endswith(": ulimit -Sn 20000")
    assert len(told("1024", "4096", 1000).findings[0].evidence) == 1


def test_cannot_tell() -> None:
    assert ask(file_limits, fake_host()).status is Status.UNKNOWN
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


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told("6", "1048576")
    yield told("1024", "1048576")
    yield told("5000", "6000")
    yield told("1024", "4096", 0, "/.dockerenv")
    yield told("1024", "4096", variables={"SLURM_JOB_ID": "7"})
    yield told("1024", "4096", files={"/proc/self/cgroup": "0::/system.slice/a.service\n"})
    yield told("1024", "4096", files={"/etc/pam.d/sshd": ""})
    yield told("1024", "4096", files={"/proc/sys/fs/nr_open": "1024\n"})
    yield told("1024", "4096", files={CONF: "root - nofile 1024\n"})
    yield told("1024", "4096", files={CONF: "root - nofile 65536\n"})
    yield ask(file_limits, fake_host())
