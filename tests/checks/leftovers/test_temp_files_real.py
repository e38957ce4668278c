"""temp-files with real locks that are held and dropped, and a real Manager that lives and is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Callable

import pytest
from tests.headless import headless
from tests.proof.test_stale import machine
from tests.support.others import with_hidden_processes

from npudoctor.checks.leftovers.temp_files import temp_files
from npudoctor.host import Host
from npudoctor.testing import Asked, FakeClock, ask

NOBODY = 64471  # nobody has it: another worker of pytest may run a Python as 65534
# As PyTorch's FileBaton does; as multiprocessing does.
BATON = "fd = os.open(sys.argv[1], os.O_CREAT | os.O_EXCL)"
MANAGER = "from multiprocessing import Manager; kept = Manager(); kept.dict()"


@contextmanager
def running(code: str, *words: str, **variables: str) -> Iterator[int]:
    """A Python with this code, killed at the end as by kill -9 with all that it started."""
    code = f"import os, sys, time\n{code}\nprint('ready', flush=True)\ntime.sleep(60)"
    child = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, **variables}, start_new_session=True,
    )  # fmt: skip
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"ready\n"
        yield child.pid
    finally:
        os.killpg(child.pid, 9)
        child.wait()
        child.stdout.close()


def judged(**variables: str) -> Asked:
    clock = FakeClock(time.time() + 7200)
    return ask(temp_files, Host(system=machine().system, clock=clock, variables=variables))


def of(asked: Asked, path: Path) -> list[str]:
    """The codes of what is said of a place."""
    return [one.code for one in asked.findings if any(str(path) in line for line in one.evidence)]


def test_a_lock_that_is_held_and_one_that_is_dropped(tmp_path: Path) -> None:
    lock = tmp_path / "py311_cpu" / "fused_adam" / "lock"
    lock.parent.mkdir(parents=True)
    with running(BATON, str(lock)):
        assert of(judged(TORCH_EXTENSIONS_DIR=str(tmp_path)), tmp_path) == []
    assert lock.exists()
    assert of(judged(TORCH_EXTENSIONS_DIR=str(tmp_path)), tmp_path) == ["temp-files.stale-lock"]
    lock.unlink()
    assert of(judged(TORCH_EXTENSIONS_DIR=str(tmp_path)), tmp_path) == []


def test_a_lock_that_a_thread_holds_whose_main_thread_ended(tmp_path: Path) -> None:
    lock = tmp_path / "py311_cpu" / "fused_adam" / "lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("kept")  # it is mapped
    with headless(lock):
        os.truncate(lock, 0)
        assert of(judged(TORCH_EXTENSIONS_DIR=str(tmp_path)), tmp_path) == []
    assert of(judged(TORCH_EXTENSIONS_DIR=str(tmp_path)), tmp_path) == ["temp-files.stale-lock"]


@pytest.mark.needs_root
def test_a_folder_that_a_thread_uses_whose_main_thread_ended(
    tmp_path: Path, lack: Callable[[str], None]
) -> None:
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        lack("in a pid namespace nothing is proven")
    file = tmp_path / "pymp-a1b2c3d4" / "kept"
    file.parent.mkdir(0o700)
    file.write_text("kept")
    os.chown(file.parent, NOBODY, NOBODY)  # of whom no Python lives that may have made it
    with headless(file):
        assert of(judged(TMPDIR=str(tmp_path)), tmp_path) == []
    assert of(judged(TMPDIR=str(tmp_path)), tmp_path) == ["temp-files.left-over"]


@pytest.mark.needs_root
@pytest.mark.parametrize("level", [1, 2])
def test_a_lock_whose_builder_hidepid_hides(level: int) -> None:
    import shutil
    import tempfile

    place = Path(tempfile.mkdtemp(prefix="npudoctor-", dir="/tmp"))  # which others can reach
    try:
        place.chmod(0o755)
        lock = place / "py311_cpu" / "fused_adam" / "lock"
        lock.parent.mkdir(parents=True)

        def asked() -> list[tuple[str, bool]]:
            found = judged(TORCH_EXTENSIONS_DIR=str(place)).findings
            return [
                (one.code, bool(one.fix and one.fix.unproven)) for one in found if str(lock) in one.message
            ]

        with running(BATON, str(lock)):
            assert asked() == []
            assert with_hidden_processes(level, NOBODY, asked) == [("temp-files.lock", True)]
    finally:
        shutil.rmtree(place)


@pytest.mark.needs_root
def test_a_manager_that_lives_and_one_that_was_killed(lack: Callable[[str], None]) -> None:
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        lack("in a pid namespace nothing is proven")
    import shutil
    import tempfile

    place = Path(tempfile.mkdtemp(prefix="npudoctor-"))  # a short path: sockets have no long ones
    try:
        with running(""):
            with running(MANAGER, TMPDIR=str(place)):
                assert len(list(place.glob("pymp-*/listener-*"))) == 1
                assert of(judged(TMPDIR=str(place)), place) == []
            (left,) = place.glob("pymp-*")
            assert list(left.iterdir()), "a killed Manager leaves its socket"
            assert of(judged(TMPDIR=str(place)), place) == [], "that other Python may have made it"
        (left / "inner").mkdir()
        for number in range(30):
            (left / "inner" / f"-{number}").write_text("")
            (left / f"-rf {number}").write_text("")
        os.chown(left, NOBODY, NOBODY)
        asked = judged(TMPDIR=str(place))
        assert of(asked, place) == ["temp-files.left-over"]
        (finding,) = (one for one in asked.findings if one.code == "temp-files.left-over")
        assert finding.fix is not None
        for line in finding.fix.commands:
            if str(place) in line:
                subprocess.run(["sh", "-c", line], check=True)
        assert not left.exists(), "the lines that are shown do what they say"
    finally:
        shutil.rmtree(place)
