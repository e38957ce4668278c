"""The working directory: there and ours, closed, removed; a real one that is removed under a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from npudoctor import Status
from npudoctor.checks.host.working_directory import working_directory_check
from npudoctor.host import Host, Options
from npudoctor.testing import Asked, Content, Node, ask, fake_host, folder, link, unreadable


def told(node: Node, euid: int = 1000) -> Asked:
    return ask(working_directory_check, fake_host({"/proc/self/cwd": link("/job"), "/job": node}, euid=euid))


def test_a_folder_of_ours_is_well() -> None:
    asked = told(folder(0o755, uid=1000))
    assert (asked.status, asked.codes, asked.facts) == (Status.OK, [], {"path": "/job"})
    assert told(folder(0o755), euid=0).codes == []
    assert told(folder(0o1777)).codes == []


def test_a_folder_of_others() -> None:
    asked = told(folder(0o755))
    assert (asked.status, asked.codes) == (Status.PROBLEM, ["working-directory.not-writable"])
    assert asked.findings[0].evidence == ("/job uid=0 gid=0 mode=drwxr-xr-x",)


def test_a_read_only_mount_is_for_nobody() -> None:
    for options in ("ro,relatime - squashfs /dev/loop0 rw", "rw - iso9660 /dev/sr0 ro"):
        mounts = f"1 0 0:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / /job {options}\n"
        files: dict[str, Content] = {"/proc/self/cwd": link("/job"), "/job": folder(0o777)}
        files["/proc/self/mountinfo"] = mounts
        asked = ask(working_directory_check, fake_host(files))
        assert asked.codes == ["working-directory.not-writable"]
        assert asked.findings[0].evidence[1].startswith("/job ")
    files["/proc/self/mountinfo"] = "1 0 0:1 / / rw - ext4 /dev/sda rw\n"
    assert ask(working_directory_check, fake_host(files)).codes == []


def test_where_an_access_list_may_allow_it_nothing_is_said() -> None:
    assert told(folder(0o775)).codes == []


def test_cannot_tell() -> None:
    assert told(unreadable()).status is Status.UNKNOWN
    assert ask(working_directory_check, fake_host(root="/image")).status is Status.SKIPPED


def test_a_real_one_that_is_gone(tmp_path: Path) -> None:
    here = tmp_path / "job"
    here.mkdir()
    command = [sys.executable, "-c", "print(flush=True); input()"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=here) as process:
        assert process.stdout is not None
        process.stdout.readline()
        host = Options(env_of=process.pid)
        assert ask(working_directory_check, Host(host)).facts == {"path": str(here)}
        here.rmdir()
        assert ask(working_directory_check, Host(host)).codes == ["working-directory.gone"]
        process.communicate(b"\n")


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield told(folder(0o755))
    yield ask(working_directory_check, fake_host({"/proc/self/cwd": link("/gone")}))
