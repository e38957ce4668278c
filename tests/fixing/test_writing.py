"""A text file written as a whole, and put back: old or new, never half, never what another put there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Callable, Optional

import pytest
from tests.support import ipc
from tests.support.desk import Desk
from tests.support.others import as_user, forked
from tests.support.room import open_place

from npudoctor.fixing.outcome import ActionStatus, Outcome
from npudoctor.fixing.steps.steps import WriteFile, decode, encode

SOMEBODY = 61234
APPLIED = Outcome(ActionStatus.APPLIED, changed=True)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_file_that_was_missing(desk: Desk) -> None:
    step = desk.write(mode=0o640)
    assert desk.take(step) == APPLIED
    assert (desk.content(), desk.path.stat().st_mode & 0o7777) == (b"new\n", 0o640)
    assert desk.names() == ["site.conf"]
    assert not desk.state.exists()
    assert desk.take(step.back()) == APPLIED
    assert desk.names() == []
    assert desk.take(step.back()).status is ActionStatus.ALREADY


def test_a_file_that_was_there(desk: Desk) -> None:
    desk.path.write_bytes(b"old \xff\x00 bytes")
    desk.path.chmod(0o604)
    step = desk.write()
    assert desk.take(step) == APPLIED
    assert (desk.content(), desk.path.stat().st_mode & 0o7777) == (b"new\n", 0o604)
    (kept,) = (desk.state / "kept").iterdir()
    assert (str(kept), kept.read_bytes(), kept.stat().st_mode & 0o777) == (
        step.kept, b"old \xff\x00 bytes", 0o600,
    )  # fmt: skip
    assert desk.take(step.back()) == APPLIED
    assert (desk.content(), desk.path.stat().st_mode & 0o7777) == (b"old \xff\x00 bytes", 0o604)
    assert desk.names() == ["site.conf"]
    assert desk.take(step.back()).reason == "it is already in its earlier state"


@pytest.mark.needs_root
def test_its_owner_its_labels_and_its_access_list_stay(desk: Desk) -> None:
    desk.path.write_text("old")
    os.setxattr(desk.path, "user.site", b"label")
    os.chown(desk.path, 0, SOMEBODY)
    desk.path.chmod(0o2640)
    before = desk.path.stat()
    step = desk.write()
    for one in (step, step.back()):
        assert desk.take(one) == APPLIED
        now = desk.path.stat()
        assert (now.st_uid, now.st_gid, now.st_mode) == (0, SOMEBODY, before.st_mode)
        assert os.getxattr(desk.path, "user.site") == b"label"


def test_a_file_that_says_so_already(desk: Desk) -> None:
    desk.path.write_text("new\n")
    outcome = desk.take(desk.write())
    assert (outcome.status, outcome.changed) == (ActionStatus.ALREADY, False)


# what happened between the look and the act


def appear(desk: Desk) -> None:
    desk.path.write_text("theirs")


def link(desk: Desk) -> None:
    (desk.home / "victim").write_text("theirs")
    desk.path.symlink_to(desk.home / "victim")


def fifo(desk: Desk) -> None:
    os.mkfifo(desk.path)


def folder(desk: Desk) -> None:
    desk.path.mkdir()


def second_name(desk: Desk) -> None:
    appear(desk)
    os.link(desk.path, desk.home / "other")


def moved_folder(desk: Desk) -> None:
    desk.etc.rename(desk.home / "moved")
    desk.etc.symlink_to(desk.home / "moved")


def lost_folder(desk: Desk) -> None:
    desk.etc.rmdir()


def open_folder(desk: Desk) -> None:
    desk.etc.chmod(0o1777)


def open_parent(desk: Desk) -> None:
    desk.home.chmod(0o777)


CHANGES = [appear, link, fifo, folder, second_name, moved_folder, lost_folder, open_folder, open_parent]


@pytest.mark.parametrize("meanwhile", CHANGES)
def test_what_changed_since_the_look(desk: Desk, meanwhile: Callable[[Desk], None]) -> None:
    step = desk.write()
    meanwhile(desk)
    before = sorted(map(str, desk.home.rglob("*")))
    outcome = desk.take(step)
    assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False)
    assert outcome.reason
    assert sorted(map(str, desk.home.rglob("*"))) == before
    if desk.path.is_file():
        assert desk.path.read_text() == "theirs"


@pytest.mark.needs_root
def test_a_folder_of_another_user(desk: Desk) -> None:
    os.chown(desk.etc, SOMEBODY, SOMEBODY)
    outcome = desk.take(desk.write())
    assert (outcome.status, "belongs to another user" in outcome.reason) == (ActionStatus.REFUSED, True)
    assert desk.names() == []


@pytest.mark.parametrize("change", ["content", "mode", "inode", "gone", "link"])
@pytest.mark.parametrize("moment", ["before the act", "at the last moment"])
def test_a_file_that_changed_since_the_look(desk: Desk, change: str, moment: str) -> None:
    desk.path.write_text("old")
    step = desk.write()

    def meanwhile(name: str = "after prepare") -> None:
        if not name.startswith("after prepare"):
            return
        if change == "content":
            desk.path.write_text("by hand")
        elif change == "mode":
            desk.path.chmod(0o600)
        else:
            desk.path.rename(desk.home / "aside")
        if change == "inode":
            desk.path.write_text("old")
        elif change == "link":
            desk.path.symlink_to(desk.home / "aside")

    if moment == "before the act":
        meanwhile()
        outcome = desk.take(step)
    else:
        outcome = desk.take(step, at=meanwhile)
    assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False)
    assert desk.content() != b"new\n"
    assert desk.names() == ([] if change == "gone" else ["site.conf"])


def test_who_makes_the_file_at_the_very_last_moment_keeps_it(desk: Desk) -> None:
    outcome = desk.take(
        desk.write(), at=lambda name: appear(desk) if name.startswith("before write") else None
    )
    assert outcome.status is ActionStatus.REFUSED
    assert (desk.content(), desk.names()) == (b"theirs", ["site.conf"])


@pytest.mark.parametrize("old", [None, "old"])
@pytest.mark.parametrize("change", ["content", "gone", "link"])
def test_what_changed_since_it_was_written_is_not_undone(desk: Desk, old: str, change: str) -> None:
    if old:
        desk.path.write_text(old)
    step = desk.write()
    assert desk.take(step) == APPLIED
    if change == "content":
        desk.path.write_text("by hand")
    else:
        desk.path.rename(desk.home / "aside")
    if change == "link":
        desk.path.symlink_to(desk.home / "aside")
    before = desk.names()
    outcome = desk.take(step.back())
    already = old is None and change == "gone"
    assert outcome.status is (ActionStatus.ALREADY if already else ActionStatus.REFUSED)
    assert not outcome.changed
    assert desk.names() == before
    assert desk.content() == (b"by hand" if change == "content" else b"new\n" if change == "link" else None)


@pytest.mark.parametrize("harm", ["gone", "changed", "link"])
def test_a_copy_that_is_not_what_was_kept(desk: Desk, harm: str) -> None:
    desk.path.write_text("old")
    step = desk.write()
    assert desk.take(step) == APPLIED
    kept = Path(step.kept or "")
    kept.rename(desk.home / "aside")
    if harm == "changed":
        kept.write_text("other")
    elif harm == "link":
        kept.symlink_to(desk.home / "aside")
    outcome = desk.take(step.back())
    assert (outcome.status, "copy" in outcome.reason) == (ActionStatus.REFUSED, True)
    assert desk.content() == b"new\n"


def test_a_copy_is_kept_nowhere_but_in_our_own_folder(desk: Desk) -> None:
    """A step of somebody else's check says where its copy is to lie."""
    desk.path.write_text("old")
    step = desk.write()
    wrong = WriteFile(step.path, step.content, step.mode, step.was, str(desk.home / "victim"))
    assert desk.take(wrong).status is ActionStatus.REFUSED
    assert (desk.content(), (desk.home / "victim").exists()) == (b"old", False)


@pytest.fixture
def open_desk() -> Iterator[Desk]:
    """A desk that other users can come to."""
    home = Path(tempfile.mkdtemp(prefix="npudoctor-", dir=open_place()))
    home.chmod(0o755)
    yield Desk(home)
    shutil.rmtree(home)


@pytest.mark.needs_root
@pytest.mark.parametrize("old", [None, "old"])
def test_who_may_not_write_there(open_desk: Desk, old: Optional[str]) -> None:
    desk = open_desk
    if old:
        desk.path.write_text(old)
    desk.state.mkdir()
    os.chown(desk.state, SOMEBODY, SOMEBODY)
    outcome = as_user(SOMEBODY, lambda: desk.take(desk.write()))
    assert (outcome.status, outcome.reason) == (ActionStatus.FAILED, "Permission denied")
    assert not outcome.changed
    assert desk.content() == (old.encode() if old else None)
    assert desk.names() == (["site.conf"] if old else [])


@pytest.mark.needs_root
def test_a_user_writes_what_is_his_own(open_desk: Desk) -> None:
    desk = open_desk
    desk.path.write_text("old")
    for path in (desk.home, desk.etc, desk.path):
        os.chown(path, SOMEBODY, SOMEBODY)

    def both() -> list[Outcome]:
        step = desk.write()
        return [desk.take(step), desk.take(step.back())]

    assert as_user(SOMEBODY, both) == [APPLIED, APPLIED]
    found = desk.path.stat()
    assert (desk.content(), found.st_uid, found.st_gid) == (b"old", SOMEBODY, SOMEBODY)


@pytest.mark.needs_root
def test_a_file_that_may_not_be_changed(desk: Desk, need: Callable[..., None]) -> None:
    """Not even by root: the attribute i, where the file system has it."""
    need("chattr")
    desk.path.write_text("old")
    step = desk.write()
    if subprocess.run(["chattr", "+i", str(desk.path)], capture_output=True, check=False).returncode:
        pytest.skip("a file system without attributes")
    try:
        outcome = desk.take(step)
    finally:
        subprocess.run(["chattr", "-i", str(desk.path)], check=True)
    assert (outcome.status, outcome.changed) == (ActionStatus.FAILED, False)
    assert (desk.content(), desk.names()) == (b"old", ["site.conf"])


@pytest.mark.needs_root
def test_a_file_that_is_a_mount_of_its_own(desk: Desk) -> None:
    """As /etc/hosts in a container: nothing can be renamed over it."""
    desk.path.write_text("old")
    (desk.home / "other").write_text("theirs")

    def inside() -> tuple[Outcome, Optional[bytes], list[str]]:
        ipc.unshare("mnt")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "--bind", str(desk.home / "other"), str(desk.path)], check=True)
        return desk.take(desk.write()), desk.content(), desk.names()

    outcome, content, names = forked(inside)
    assert (outcome.status, outcome.changed) == (ActionStatus.FAILED, False)
    assert (content, names) == (b"theirs", ["site.conf"])


# killed midway


def killed(desk: Desk, step: object, number: int) -> bool:
    """Apply it in a child that is killed at this point; whether it came to that."""
    pid = os.fork()
    if pid == 0:
        left = iter(range(number))

        def at(_name: str) -> None:
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            desk.take(step, at=at)  # type: ignore[arg-type]
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("old", [None, b"old"])
def test_a_kill_at_any_point_leaves_old_or_new(desk: Desk, old: bytes) -> None:
    number = 0
    while True:
        desk.path.unlink(missing_ok=True)
        if old:
            desk.path.write_bytes(old)
        step = desk.write()
        if not killed(desk, step, number):
            break
        assert desk.content() in (old, b"new\n")
        assert desk.take(desk.write()).status in (ActionStatus.APPLIED, ActionStatus.ALREADY)
        assert (desk.content(), desk.names()) == (b"new\n", ["site.conf"])
        number += 1
        shutil.rmtree(desk.state, ignore_errors=True)
    assert desk.content() == b"new\n"
    assert number >= (10 if old else 4)


@pytest.mark.parametrize("old", [None, b"old"])
def test_a_kill_at_any_point_of_either_is_undone(desk: Desk, old: bytes) -> None:
    for first, number in ((first, number) for first in (True, False) for number in range(12)):
        desk.path.unlink(missing_ok=True)
        if old:
            desk.path.write_bytes(old)
        step = desk.write()
        if first:
            killed(desk, step, number)
        else:
            desk.take(step)
            killed(desk, step.back(), number)
            assert desk.content() in (old, b"new\n")
        assert desk.take(step.back()).status in (ActionStatus.APPLIED, ActionStatus.ALREADY)
        assert (desk.content(), desk.names()) == (old, ["site.conf"] if old else [])


# the lines

CONTENTS = [
    "new\n", "", "a b\n'c' $d `e` \\n %s %\n\n", "-n\n", "no end", "tab\t\x1b[31m\x7f\n", "é 中文\n",
    "\udcff\udc80\n", "\r\n", "*\n", "-x\t%d\n", "-v", "\n", "\x001",
]  # fmt: skip


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("content", CONTENTS)
def test_the_lines_do_what_we_do(desk: Desk, content: str, shell: str) -> None:
    for old in (None, b"old"):
        if old:
            desk.path.write_bytes(old)
            desk.path.chmod(0o600)
        step = desk.write(content, 0o640)
        lines = "\n".join(step.lines())
        assert all(line.isprintable() for line in step.lines())
        subprocess.run([shell, "-ec", lines], check=True)
        assert desk.content() == step.raw
        assert desk.path.stat().st_mode & 0o777 == (0o600 if old else 0o640)
        subprocess.run([shell, "-ec", "\n".join(step.undo_lines())], check=True)
        assert desk.content() == old


def test_through_json_and_back(desk: Desk) -> None:
    desk.path.write_text("old")
    step = desk.write("\udcff\x00'")
    for one in (step, step.back(), WriteFile("/a", "b").back()):
        assert decode(json.loads(json.dumps(encode(one)))) == one


def test_a_disk_that_fails_after_the_change_hides_no_change(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the journal would say that nothing was changed, and undo would pass over it."""
    sync, failing = os.fsync, [False]

    def fails(descriptor: int) -> None:
        if failing[0] and os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(5, os.strerror(5))
        sync(descriptor)

    def at(name: str) -> None:
        failing[0] = name.startswith(("before write", "before restore", "before remove"))

    monkeypatch.setattr(os, "fsync", fails)
    failed = Outcome(ActionStatus.FAILED, os.strerror(5), changed=True)
    for old in (None, "old"):
        if old:
            desk.path.write_text(old)
        step = desk.write()

        def after(name: str) -> None:
            at(name if name.startswith("before") else "before write")

        assert desk.take(step, at=after) == failed
        failing[0] = False
        assert desk.content() == b"new\n"
        assert desk.take(step.back(), at=after) == failed
        failing[0] = False
        assert desk.content() == (b"old" if old else None)
