"""Room and inodes: by file system, named once; owners of /tmp; a real small one that is full."""

from __future__ import annotations

import errno
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest
from tests.support.over import mount_over

from npudoctor import Status
from npudoctor.checks.host import disk_space as module
from npudoctor.checks.host.disk_space import disk_space
from npudoctor.host import CannotTell
from npudoctor.host.fs.files import Space
from npudoctor.testing import Asked, Content, Node, ask, fake_host, folder, link, unreadable

MIB, GIB = 1 << 20, 1 << 30
LOCALLY = (
    'from npudoctor.host.fs.disk import LocalDisk as D; s = D().space("/tmp"); print(s.free, s.read_only)'
)
IN_A_CHILD = (
    "from npudoctor.host.fs.blocking import MountChild as O; "
    's = O("/", 9).ask("space", "/tmp"); print(s[1], s[5])'
)
PLENTY = Space(100 * GIB, 50 * GIB, 1 << 20, 1 << 19, 1)


def told(tmp: Space, home: Space = PLENTY, files: Optional[dict[str, Content]] = None) -> Asked:
    given: dict[str, Content] = {
        "/tmp": folder(0o1777),
        "/home/ada": folder(uid=1000),
        "/home/ada/job": folder(uid=1000),
        "/proc/self/cwd": link("/home/ada/job"),
        "/etc/passwd": "root:x:0:0::/root:\nada:x:1000:1000::/home/ada:\n",
        **(files or {}),
    }
    spaces = {"/tmp": tmp, "/home": home}
    return ask(disk_space, fake_host(given, spaces=spaces, euid=1000, user="ada"))


@pytest.mark.parametrize(
    ("space", "codes", "status"),
    [
        (PLENTY, [], Status.OK),
        (Space(100 * GIB, 900 * MIB, 0, 0, 2), ["disk-space.low"], Status.PROBLEM),
        (Space(100 * GIB, 15 * MIB, 0, 0, 2), ["disk-space.full"], Status.PROBLEM),
        (Space(4 * GIB, 900 * MIB, 0, 0, 2), [], Status.OK),  # small, and far from full
        (Space(100 * GIB, 50 * GIB, 1 << 20, 9999, 2), ["disk-space.few-inodes"], Status.PROBLEM),
        (Space(100 * GIB, 50 * GIB, 1 << 20, 3, 2), ["disk-space.few-inodes"], Status.PROBLEM),
        (Space(100 * GIB, 50 * GIB, 1 << 20, 0, 2), ["disk-space.no-inodes"], Status.PROBLEM),
        (Space(0, 0, 0, 0, 2), [], Status.OK),
        (Space(GIB, 0, 10, 0, 2, read_only=True), [], Status.OK),
    ],
)
def test_how_much_is_free(space: Space, codes: list[str], status: Status) -> None:
    asked = told(space)
    assert (asked.codes, asked.status) == (codes, status)


def test_one_file_system_is_told_once_with_all_its_folders() -> None:
    full = Space(100 * GIB, MIB, 0, 0, 7)
    (finding,) = told(full, full).findings
    assert finding.message.endswith("/tmp, /home/ada, /home/ada/job")


def test_who_holds_the_most_of_tmp() -> None:
    files: dict[str, Content] = {
        "/tmp/big": Node(uid=1000, held=5 * GIB),
        "/tmp/of/root": Node(held=2 * GIB),
        "/tmp/of/another": Node(held=GIB),
        "/tmp/closed": unreadable(),
        "/tmp/link": link("/home"),
    }
    asked = told(Space(100 * GIB, 900 * MIB, 0, 0, 2), files=files)
    assert asked.codes == ["disk-space.low", "disk-space.tmp-owners"]
    assert asked.findings[1].evidence == (
        "ada (uid 1000): 5 GiB; the biggest: /tmp/big, 5 GiB",
        "root (uid 0): 3 GiB; the biggest: /tmp/of/root, 2 GiB",
    )


def test_cannot_tell() -> None:
    asked = told(PLENTY, files={"/tmp": unreadable(5)})
    assert asked.status is Status.UNKNOWN and "/tmp" in asked.reason
    assert ask(disk_space, fake_host(root="/image")).status is Status.SKIPPED


def test_a_dead_mount_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_answer(path: str) -> Space:
        raise CannotTell("the file system mounted at /home does not answer")

    host = fake_host({"/tmp": folder(0o1777), "/home/ada": folder()}, euid=1000, user="ada")
    monkeypatch.setattr(host.running_files, "space", no_answer)
    asked = ask(disk_space, host)
    assert asked.reason == "the file system mounted at /home does not answer"
    assert asked.tried_by == ("trial-files",)


@pytest.mark.needs_root
@pytest.mark.parametrize("program", [LOCALLY, IN_A_CHILD])
def test_a_real_one_that_is_full_and_read_only(program: str) -> None:
    script = (
        f"{mount_over('/tmp', 'size=64m')}\nfallocate -l 64m /tmp/data || true\nmount -o remount,ro /tmp\n"
        f"exec {shlex.quote(sys.executable)} -c '{program}'"
    )
    done = subprocess.run(["unshare", "-m", "sh", "-ec", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0 True\n", "")


@pytest.mark.needs_root
def test_a_real_one_that_is_full() -> None:
    script = (
        f"{mount_over('/tmp', 'size=64m,nr_inodes=40')}\nfallocate -l 60m /tmp/data\n"
        "while mktemp /tmp/XXXXXX >/dev/null 2>&1; do :; done\n"
        f"exec {shlex.quote(sys.executable)} -m npudoctor check disk-space --format json"
    )
    done = subprocess.run(["unshare", "-m", "sh", "-ec", script], capture_output=True, text=True)
    (row,) = json.loads(done.stdout)["results"]
    codes = [finding["code"] for finding in row["findings"]]
    assert codes == ["disk-space.full", "disk-space.no-inodes", "disk-space.tmp-owners"]
    assert row["findings"][2]["evidence"] == ["root (uid 0): 60 MiB; the biggest: /tmp/data, 60 MiB"]


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    files: dict[str, Content] = {f"/tmp/{number}": Node(uid=1000, held=GIB) for number in range(3)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST", 2)
        yield told(Space(100 * GIB, 900 * MIB, 0, 0, 2), files=files)
    yield told(Space(100 * GIB, MIB, 1 << 20, 0, 2))
    yield told(Space(100 * GIB, 50 * GIB, 1 << 20, 300, 2))
    yield told(PLENTY, files={"/tmp": unreadable(5)})


def test_a_folder_whose_server_is_gone_is_for_others_to_tell() -> None:
    assert told(PLENTY, files={"/home/ada": unreadable(errno.ENOTCONN)}).status is Status.OK
