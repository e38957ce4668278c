"""/tmp, TMPDIR and /dev/shm: writable, read-only, closed to this user; real mounts in a namespace."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.over import mount_over

from npudoctor import Severity, Status
from npudoctor.checks.host.temporary_folders import temporary_folders
from npudoctor.testing import Asked, Content, MemoryDisk, ask, fake_host, folder, package_files, unreadable

TMP, SHM, OWN = "/tmp", "/dev/shm", "/scratch/trainer"
OPEN = folder(0o1777)
MOUNTS = "1 0 0:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / {point} {options}\n"
READ_ONLY = ("ro,nosuid - tmpfs tmpfs rw", "rw,nosuid - ext4 /dev/sdb ro,errors=remount-ro")
CACHES = package_files("mindspore", "2.7.0")


def told(files: Mapping[str, Content], euid: int = 1000, **more: Any) -> Asked:
    users = "root:x:0:0::/root:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\n"
    there: dict[str, Content] = {TMP: OPEN, SHM: OPEN, "/etc/passwd": users, **files}
    more.setdefault("user", "root" if not euid else "trainer")
    return ask(temporary_folders, fake_host(there, euid=euid, **more))


def test_quiet_when_they_can_be_written() -> None:
    for variables in ({}, {"TMPDIR": OWN}, {"TMPDIR": f"{TMP}/"}):
        asked = told({OWN: folder(0o700, 1000)}, variables=variables)
        assert (asked.status, asked.codes) == (Status.OK, [])


def test_where_a_mode_does_not_tell_the_kernel_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """An access list may allow it; a fake disk has none."""
    assert told({TMP: folder(0o770)}).codes == ["temporary-folders.not-writable"]
    monkeypatch.setattr(MemoryDisk, "accessible", lambda disk, path, mode: True)
    assert told({TMP: folder(0o770)}).status is Status.OK


@pytest.mark.parametrize("point", [TMP, SHM])
@pytest.mark.parametrize("options", READ_ONLY)
@pytest.mark.parametrize("euid", [0, 1000])
def test_mounted_read_only(point: str, options: str, euid: int) -> None:
    (finding,) = told({"/proc/self/mountinfo": MOUNTS.format(point=point, options=options)}, euid).findings
    assert (finding.code, finding.severity) == ("temporary-folders.not-writable", Severity.ERROR)
    assert f"cannot write to {point}: {point} is mounted read-only" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == (f"mount -o remount,rw {point}",)


def test_in_a_container_there_is_no_line_for_it() -> None:
    mounts = MOUNTS.format(point=TMP, options=READ_ONLY[0])
    files: dict[str, Content] = {"/proc/self/mountinfo": mounts, "/.dockerenv": ""}
    (finding,) = told(files).findings
    assert finding.fix is not None
    assert (finding.fix.commands, "ask whoever starts" in finding.fix.title) == ((), True)


@pytest.mark.parametrize("path", [TMP, SHM])
def test_a_mode_that_keeps_this_user_out(path: str) -> None:
    (finding,) = told({path: folder(0o755)}).findings
    assert finding.message == f"trainer cannot write to {path}: it belongs to root, mode 0755"
    assert finding.fix is not None
    assert finding.fix.commands == (f"chmod 1777 {path}",)
    assert finding.fix.undo_commands == (f"chmod 755 {path}",)
    assert told({path: folder(0o755)}, euid=0).codes == []


def test_missing() -> None:
    (finding,) = told({TMP: ""}).findings
    assert "it is not a folder" in finding.message
    asked = ask(temporary_folders, fake_host({}))
    assert [finding.message for finding in asked.findings] == [
        f"{fake_host({}).identity.user} cannot write to {TMP}: it does not exist"
    ]  # of a /dev/shm that is missing shm-size speaks


def test_tmpdir_stands_in_for_tmp() -> None:
    asked = told({TMP: folder(0o755), OWN: folder(0o700, 1000)}, variables={"TMPDIR": OWN})
    assert [finding.severity for finding in asked.findings] == [Severity.WARNING]
    asked = told({TMP: folder(0o755)}, variables={"TMPDIR": OWN})
    assert [finding.severity for finding in asked.findings] == [Severity.ERROR, Severity.WARNING]


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "it does not exist"),
        ({OWN: folder(0o700)}, "it belongs to root, mode 0700"),
        ({"/scratch": unreadable(13)}, "this user cannot enter"),
    ],
)
def test_a_tmpdir_that_cannot_be_used(files: dict[str, Content], why: str) -> None:
    (finding,) = told(files, variables={"TMPDIR": OWN}).findings
    assert (finding.severity, why in finding.message) == (Severity.WARNING, True)
    assert f"TMPDIR={OWN}" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == ("unset TMPDIR",)


def test_a_tmpdir_that_gives_no_answer_hides_nothing() -> None:
    asked = told({TMP: folder(0o755), "/scratch": unreadable(5)}, variables={"TMPDIR": OWN})
    assert (asked.status, asked.codes) == (Status.UNKNOWN, ["temporary-folders.not-writable"])
    assert asked.tried_by == ("trial-files", "trial-shared-memory")


@pytest.mark.parametrize(
    ("variables", "severity"), [({}, Severity.WARNING), ({"MS_CACHE_PORT": "50052"}, Severity.ERROR)]
)
def test_another_users_folder_of_cache_servers(variables: dict[str, str], severity: Severity) -> None:
    files: dict[str, Content] = {**CACHES, "/tmp/mindspore": folder(0o700, 1001)}
    (finding,) = told(files, variables=variables).findings
    assert (finding.code, finding.severity) == ("temporary-folders.mindspore-closed", severity)
    assert "/tmp/mindspore belongs to bob, mode 0700" in finding.message
    assert told(files, euid=0, variables=variables).codes == []
    assert told(files, euid=1001, variables=variables).codes == []


def test_a_folder_of_cache_servers_that_does_no_harm() -> None:
    closed, shared = folder(0o700, 1001), folder(0o755, 1001)
    assert told({"/tmp/mindspore": closed}).codes == []  # MindSpore is not installed
    assert told({**CACHES, "/tmp/mindspore": folder(0o777)}).codes == []
    own: dict[str, Content] = {"/tmp/mindspore": shared, "/tmp/mindspore/trainer": folder(0o700, 1000)}
    assert told({**CACHES, **own}).codes == []
    assert told({**CACHES, "/tmp/mindspore": shared}).codes == ["temporary-folders.mindspore-closed"]


def test_an_image_is_not_running() -> None:
    assert ask(temporary_folders, fake_host(root="/image")).status is Status.SKIPPED


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize("path", [TMP, SHM])
def test_a_real_mount(path: str) -> None:
    """The whole command, in a mount namespace of its own."""
    spoil = f'{mount_over(path, "mode=1777")}\nmount -o remount,ro {path}\nexec "$@"'
    command = [sys.executable, "-m", "npudoctor", "check", "temporary-folders", "--expect", "none"]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", spoil, "sh", *command, "--format", "json"],
        capture_output=True,
        cwd="/",
        check=False,
    )
    if b"unshare failed" in done.stderr:
        pytest.skip("no mount namespace may be made here")
    report = json.loads(done.stdout)
    (finding,) = [finding for row in report["results"] for finding in row["findings"]]
    assert (done.returncode, report["verdict"]) == (1, "not_ready")
    assert f"{path} is mounted read-only" in finding["message"]


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    mounts = {"/proc/self/mountinfo": MOUNTS.format(point=SHM, options=READ_ONLY[0])}
    yield told(dict(mounts))
    yield told({**mounts, "/.dockerenv": ""})
    yield told({TMP: folder(0o755)}, variables={"TMPDIR": OWN})
    yield told({TMP: ""})
    yield told({"/scratch": unreadable(13)}, variables={"TMPDIR": OWN})
    yield told({**CACHES, "/tmp/mindspore": folder(0o700, 1001)})


def test_a_tmpdir_whose_server_is_gone() -> None:
    asked = told({"/scratch": unreadable(errno.ENOTCONN)}, variables={"TMPDIR": OWN})
    assert (asked.status, asked.codes) == (Status.PROBLEM, ["temporary-folders.not-writable"])
    assert "Transport endpoint is not connected" in asked.findings[0].message
