"""The job's Python and its modules, started for real: with modules hidden, and calls refused."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import pytest
from tests.trial import starting
from tests.trial.killing import left_after_kills
from tests.trial.refusing import refused_calls, refusing
from tests.trial.starting import Ended, refusals

from npudoctor.trial.trials import Trial, Trials

pytestmark = pytest.mark.whole


def tried(
    part: str = "python", needed: Sequence[str] = (), levels: Sequence[str] = (), **words: object
) -> Trial:
    """The part, or another one that needs nothing either."""
    return starting.tried(part, needed=needed, levels=levels, **words)  # type: ignore[arg-type]


PYTHON = "/usr/bin/python3"
QUEUES = "multiprocessing.queues"
UUID = ["uuid"] if sys.version_info < (3, 10) else []


def modules(folder: Path, **sources: str) -> tuple[str, ...]:
    """Starts a program with these modules in the place of the standard library's."""
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    return ("env", f"PYTHONPATH={folder}")


def test_all_is_there_and_nothing_is_left(tmp_path: Path) -> None:
    trial = tried("python", before=("env", f"TMPDIR={tmp_path}"))
    assert refusals(trial) == {} and (trial.hung, trial.died) == (None, None)
    tried_by_name = [attempt.what for attempt in trial.attempts]
    assert "import ctypes" in tried_by_name and "import zoneinfo" in tried_by_name
    assert "start forkserver" in tried_by_name and "start spawn" not in tried_by_name
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("absent", "refused"),
    [
        ("_ssl", ["ssl"]),
        ("_sqlite3", ["sqlite3"]),
        ("_ctypes", ["ctypes"]),
        (
            "_multiprocessing",
            ["multiprocessing.synchronize", *([QUEUES] if sys.version_info < (3, 13) else [])],
        ),
        # What else starts a program as soon as it is imported: uuid, up to Python 3.9.
        ("_posixsubprocess", ["subprocess", *UUID, "multiprocessing.synchronize", QUEUES]),
    ],
)
def test_a_module_that_is_missing(tmp_path: Path, absent: str, refused: list[str]) -> None:
    why = f"No module named {absent!r}"
    trial = tried("python", before=modules(tmp_path, **{absent: f"raise ModuleNotFoundError({why!r})"}))
    assert [attempt.facts["module"] for attempt in trial.refused()] == refused
    assert {attempt.why for attempt in trial.refused()} == {why}
    started = any(attempt.facts["step"] == "start" for attempt in trial.attempts)
    assert started is (absent in ("_ssl", "_sqlite3"))


def test_a_file_of_the_job_in_the_place_of_a_module(tmp_path: Path) -> None:
    """It has the name of what multiprocessing needs for its queues and managers."""
    (refused,) = tried("python", before=modules(tmp_path, queue="jobs = []")).refused()
    assert refused.facts["module"] == QUEUES and str(tmp_path / "queue.py") in refused.facts["others"]


@pytest.mark.parametrize(
    ("value", "why"),
    [("debug", "Unknown level: 'debug'"), ("", "Unknown level: ''"), ("DEBUG", ""), (None, "")],
)
def test_a_log_level(value: Optional[str], why: str) -> None:
    before = ("env", "-u", "LOGLEVEL") if value is None else ("env", f"LOGLEVEL={value}")
    refused = tried(levels=["LOGLEVEL"], before=before).refused()
    assert [attempt.why for attempt in refused] == ([why] if why else [])
    assert tried(before=("env", "LOGLEVEL=debug")).refused() == []


def test_what_else_is_needed_is_imported(tmp_path: Path) -> None:
    """Of which the other checks can read nothing; and where this Python looks is told."""
    before = modules(tmp_path, needed_here="", needed_not="raise PermissionError(13, 'Permission denied')")
    trial = tried("python", before=before, needed=["needed_here", "needed_not", "needed_nowhere"])
    assert refusals(trial) == {"import needed_not": errno.EACCES, "import needed_nowhere": 0}
    assert str(tmp_path) in trial.facts()["search_path"]
    assert "_frozen_importlib" in trial.facts()["finders"]


@pytest.mark.needs_root
def test_the_working_directory_is_closed() -> None:
    """The job is in it, as after `su` without a dash; a child of spawn goes there."""
    made = 'mount -t tmpfs -o mode=700 t /mnt; cd /mnt; exec "$@"'
    before = ("unshare", "-m", "sh", "-c", made, "sh")
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    trial = tried("python", before=(*before, *as_nobody), python=PYTHON)
    assert refusals(trial) == {"enter the working directory": errno.EACCES}
    assert refusals(tried("python", before=before, python=PYTHON)) == {}


@pytest.mark.needs_root
def test_a_library_that_is_spoiled() -> None:
    found = "import _ctypes; print(next(l.split()[-1] for l in open('/proc/self/maps') if 'libffi' in l))"
    hide = f'mount --bind /dev/null $({PYTHON} -c "{found}") && exec "$@"'
    trial = tried("python", before=("unshare", "-m", "sh", "-c", hide, "sh"), python=PYTHON)
    (refused,) = trial.refused()
    assert refused.facts["module"] == "ctypes" and "libffi.so" in refused.why


def test_no_process_can_be_started() -> None:
    trial = tried(
        "python", before=refused_calls(*(refusing(call, errno.EAGAIN) for call in ("clone", "vfork")))
    )
    assert set(refusals(trial).items()) == {
        (step, errno.EAGAIN) for step in ("start forkserver", "start spawn")
    }


def test_no_server_can_be_started(tmp_path: Path) -> None:
    before = (*refused_calls(refusing("bind", errno.EPERM)), "env", f"TMPDIR={tmp_path}")
    trial = tried("python", before=before)
    assert refusals(trial) == {"start forkserver": errno.EPERM} and os.listdir(tmp_path) == []
    assert trial.attempts[-1].facts["step"] == "import"


def test_the_other_python_does_not_start(tmp_path: Path) -> None:
    """It is asked for by the name under which this one was started, and that is gone by then."""
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    before = modules(tmp_path, ssl="", uuid=f"import os; os.unlink({str(link)!r})")
    assert {"start forkserver", "start spawn"} <= set(
        refusals(tried("python", before=before, python=str(link)))
    )


def test_it_dies_in_a_module(tmp_path: Path) -> None:
    trial = tried("python", before=modules(tmp_path, sqlite3="import os; os.kill(os.getpid(), 11)"))
    assert (trial.died, trial.signal) == ("import sqlite3", 11)


def test_it_does_not_start() -> None:
    trial = tried("python", before=("env", "PYTHONHOME=/nowhere"))
    assert trial.attempts == () and trial.died == "" and "encodings" in trial.last_line


@pytest.mark.parametrize(("silent", "starts"), [("/far does not answer", 1), ("", 2)])
def test_what_waits_for_a_silent_server_is_started_once(silent: str, starts: int) -> None:
    """Each would wait as long, and leave another process behind."""
    started: list[str] = []

    def start(argv: Sequence[str], seconds: float) -> Ended:
        started.append(argv[0])
        return Ended("timeout", None, "", "")

    until = time.monotonic() + 60
    trials = Trials(start, lambda: None, list, lambda: PYTHON, until, silent=lambda: silent)
    for _number in range(2):
        trial = trials.try_part("python")
        assert (trial.hung, trial.waits_for) == ("", silent)
    assert started == [PYTHON] * starts


@pytest.mark.parametrize("group", [True, False])
def test_where_killed_nothing_is_left(tmp_path: Path, group: bool) -> None:
    assert left_after_kills("python", tmp_path, seconds=0.15, times=10, group=group) == []


@pytest.mark.parametrize("version", ["3.6", "3.7", "3.8", "3.9", "3.10", "3.12", "3.13", "3.14"])
def test_other_pythons(version: str) -> None:
    """Beside ours, as a manager of versions has them."""
    pythons = sorted(Path(sys.base_prefix).parent.glob(f"{version}.*/bin/python{version}"))
    if not pythons:
        pytest.skip(f"no Python {version} here")
    for part in ("python", "files"):
        trial = tried(part, python=str(pythons[0]), folders=[], existing=[], names=2)
        assert (refusals(trial), trial.died, trial.hung) == ({}, None, None)
