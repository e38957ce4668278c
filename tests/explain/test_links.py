"""Nobody's link, pipe, device or race leads a walk out of the folder that was named, or holds it up."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest
from tests.support.engines import late

from npudoctor.core.redact.redactor import Redactor
from npudoctor.explain.excerpts import excerpts
from npudoctor.explain.reading import walk as walks
from npudoctor.explain.reading.opening import Opener, Unreadable, open_named
from npudoctor.explain.reading.walk import Log, Walk

ENGINE = late()
HIDDEN = "RuntimeError: what only root may read\n"
USER = 65534
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be led astray")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder on the way to which everybody may pass."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def private(folder: Path) -> Path:
    """A file that only root may read, outside of the logs."""
    path = folder / "private" / "secret.log"
    path.parent.mkdir(mode=0o700)
    path.write_text(HIDDEN)
    path.chmod(0o600)
    return path


def walked(path: Path) -> Walk:
    walk = Walk()
    walk.folder(str(path))
    return walk


def reasons(walk: Walk) -> dict[str, str]:
    return {os.path.basename(path): why for path, why in (*walk.problems, *walk.notes)}


def test_no_link_leads_out_of_a_folder(folder: Path) -> None:
    secret = private(folder)
    logs = folder / "logs"
    (logs / "below").mkdir(parents=True)
    (logs / "below" / "one.log").write_text("fine\n")
    targets = {
        "absolute": str(secret),
        "relative": "../private/secret.log",
        "folder": str(secret.parent),
        "root": "/",
        "kmsg": "/proc/kmsg",
        "environ": "/proc/self/environ",
        "twice": "relative",
        "inside-out": "below/../../private",
        "prefix": f"{logs}-other/x.log",
    }
    for name, target in targets.items():
        (logs / name).symlink_to(target)
    walk = walked(logs)
    assert [os.path.basename(log.path) for log in walk.logs] == ["one.log"]
    assert set(reasons(walk)) == set(targets)
    assert all(", outside the folder" in why for why in reasons(walk).values())


@pytest.mark.parametrize(
    ("name", "target", "complete"),
    [
        ("latest", "/var/log", True),
        ("data", "../datasets", True),
        ("rank_0.log", "/scratch/a", False),
        ("first", "/scratch/worker_0.log.gz", False),
        ("rank_0", "/scratch/a", False),
        ("newest", "/scratch/train.log.2", False),
        ("w", "/scratch/workerlog.0", False),
        ("a", "/scratch/attempt_0/1/stderr", False),
    ],
)
def test_only_a_link_to_a_log_that_is_kept_elsewhere_leaves_something_unread(
    folder: Path, name: str, target: str, complete: bool
) -> None:
    (folder / "one.log").write_text("fine\n")
    (folder / name).symlink_to(target)
    walk = walked(folder)
    assert [os.path.basename(log.path) for log in walk.logs] == ["one.log"]
    assert (walk.problems == []) is complete and ", outside the folder" in reasons(walk)[name]


def test_a_link_that_stays_in_the_folder_hides_nothing(folder: Path) -> None:
    (folder / "run_1").mkdir()
    (folder / "run_1" / "one.log").write_text("fine\n")
    (folder / "latest").symlink_to("run_1")
    (folder / "latest.log").symlink_to(folder / "latest" / "one.log")
    (folder / "gone.log").symlink_to("run_1/none.log")
    (folder / "circle").symlink_to("circle2")
    (folder / "circle2").symlink_to("./circle")
    walk = walked(folder)
    assert [os.path.basename(log.path) for log in walk.logs] == ["one.log"]
    assert walk.problems == [] and set(reasons(walk)) == {"latest", "gone.log", "circle", "circle2"}


def test_pipes_sockets_and_devices_are_not_opened(folder: Path) -> None:
    os.mkfifo(folder / "fifo.log")
    if not os.geteuid():
        os.mknod(folder / "null.log", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket.log"))
        walk = walked(folder)
    assert walk.logs == [] and walk.problems == [] and "fifo.log" in reasons(walk)


@pytest.mark.parametrize("path", ["/proc", "/sys", "/dev", "/proc/self", "/sys/kernel"])
def test_the_folders_of_the_kernel_hold_no_logs(path: str) -> None:
    walk = walked(Path(path))
    assert walk.logs == [] and [one for one, _why in walk.problems] == [path]


@pytest.mark.needs_root
@root_only
def test_nor_do_they_where_they_are_mounted_elsewhere(folder: Path) -> None:
    """In a namespace of its own: /proc and one file of it are mounted among the logs."""
    (folder / "well.log").write_text("fine\n")
    (folder / "kernel").mkdir()
    (folder / "kmsg.log").touch()
    script = (
        "import sys; from npudoctor.explain.reading.walk import Walk\n"
        "walk = Walk(); walk.folder(sys.argv[1])\n"
        "print([log.below for log in walk.logs], len(walk.notes), len(walk.problems))"
    )
    shell = (
        'mount -t proc proc "$1/kernel" && mount --bind /proc/kmsg "$1/kmsg.log" && exec "$2" -c "$3" "$1"'
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", shell, "sh", str(folder), sys.executable, script],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "['well.log'] 2 0\n", done


def read(log: Log) -> Optional[str]:
    (evidence,) = ENGINE.logs([log])
    assert not any(HIDDEN[:20] in seen.text for marks in evidence.marks.values() for seen in marks)
    return evidence.problem


def test_a_log_that_becomes_a_link_after_the_walk_is_not_read(folder: Path) -> None:
    secret = private(folder)
    logs = folder / "logs"
    (logs / "below").mkdir(parents=True)
    for name in ("one.log", "below/two.log", "three.log"):
        (logs / name).write_text("fine\n")
    found = {log.below: log for log in walked(logs).logs}
    (logs / "one.log").unlink()
    (logs / "one.log").symlink_to(secret)
    assert read(found["one.log"])
    (logs / "below").rename(folder / "moved")
    (logs / "below").symlink_to(secret.parent)
    assert read(found["below/two.log"])
    (logs / "three.log").unlink()
    os.link(secret, logs / "three.log")
    assert "replaced" in (read(found["three.log"]) or "")
    (logs / "three.log").unlink()
    os.mkfifo(logs / "three.log")
    started = time.monotonic()
    assert read(found["three.log"]) and time.monotonic() - started < 5


def test_a_folder_that_is_renamed_while_it_is_walked_leads_nowhere_else(folder: Path) -> None:
    private(folder)
    logs = folder / "logs"
    (logs / "a").mkdir(parents=True)
    (logs / "b").mkdir()
    (logs / "b" / "secret.log").write_text("fine\n")
    walk = Walk()
    steps = walk.steps(str(logs))
    next(steps)
    logs.rename(folder / "moved")
    logs.mkdir()
    (logs / "b").symlink_to(folder / "private")
    for _step in steps:
        pass
    (log,) = walk.logs
    assert log.size == len("fine\n") and read(log)


def test_a_bundle_holds_only_what_was_read(folder: Path) -> None:
    secret = private(folder)
    logs = folder / "logs"
    logs.mkdir()
    path = logs / "one.log"
    path.write_text("RuntimeError: out of tune\n")
    (log,) = walked(logs).logs
    judgement = ENGINE.judge(ENGINE.logs([log]))
    known = {log.path: log}
    (one,) = excerpts(judgement.diagnoses, judgement.errors, known, Redactor())
    assert "out of tune" in one.text and not one.missing
    path.unlink()
    path.symlink_to(secret)
    (one,) = excerpts(judgement.diagnoses, judgement.errors, known, Redactor())
    assert (one.path, one.text) == (str(path), "") and one.missing


@pytest.mark.needs_root
@root_only
def test_root_follows_a_named_link_only_to_what_belongs_to_whose_link_it_is(folder: Path) -> None:
    secret = private(folder)
    theirs = folder / "theirs"
    (theirs / "logs").mkdir(parents=True)
    (theirs / "logs" / "one.log").write_text("fine\n")
    (theirs / "mine.log").symlink_to("logs/one.log")
    (theirs / "secret.log").symlink_to(secret)
    (theirs / "folder").symlink_to(secret.parent)
    subprocess.run(["chown", "-Rh", str(USER), str(theirs)], check=True)
    (folder / "ours.log").symlink_to(secret)
    for name in ("theirs/mine.log", "ours.log", "theirs/logs/../logs/one.log"):
        os.close(open_named(str(folder / name)))
    for name in ("theirs/secret.log", "theirs/folder", "theirs/folder/secret.log"):
        with pytest.raises(Unreadable, match=f"uid {USER}"):
            open_named(str(folder / name))
        with pytest.raises(Unreadable):
            Opener().open(str(folder / name))
    with pytest.raises(OSError, match="symbolic"):
        (folder / "loop").symlink_to("loop")
        open_named(str(folder / "loop"))


@pytest.mark.needs_root
@root_only
def test_a_hard_link_to_what_its_maker_may_not_read_is_no_log(folder: Path) -> None:
    secret = private(folder)
    theirs = folder / "theirs"
    theirs.mkdir()
    (theirs / "own.log").write_text("fine\n")
    os.link(theirs / "own.log", theirs / "again.log")
    subprocess.run(["chown", "-Rh", str(USER), str(theirs)], check=True)
    os.link(secret, theirs / "planted.log")
    walk = walked(theirs)
    assert len(walk.logs) == 1 and [os.path.basename(path) for path, _why in walk.problems] == ["planted.log"]
    shared = folder / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    os.link(secret, shared / "planted.log")
    assert walked(shared).logs == []


def test_odd_names_and_what_nobody_may_enter(folder: Path) -> None:
    (folder / "two\nlines.log").write_text("fine\n")
    (folder / os.fsdecode(b"\xff.log")).write_text("fine\n")
    deep = folder
    for _level in range(70):
        deep = deep / "d"
    deep.mkdir(parents=True)
    walk = walked(folder)
    assert len(walk.logs) == 2 and [why for _path, why in walk.problems] == ["nested too deeply: not read"]


def test_of_very_many_entries_the_rest_is_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "ENTRIES", 10)
    for number in range(25):
        (folder / f"{number}.log").touch()
    walk = walked(folder)
    assert (len(walk.logs), walk.more) == (10, 15)


def test_a_walk_takes_no_descriptors_with_it(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "one.log").write_text("fine\n")
    (folder / "a" / "up").symlink_to("..")
    before = os.listdir("/proc/self/fd")
    logs = walked(folder).logs
    ENGINE.logs(logs)
    assert os.listdir("/proc/self/fd") == before
