"""`explain` and `run` beside a file system that never answers: an answer, and the job's status, in time."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest

from .beside_frozen import runner
from .command import Done, Npudoctor
from .running import quiet_machine

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

LINE = "ImportError: libhccl.so: cannot open shared object file: No such file or directory\n"
SOON = 30.0  # seconds that all of it may take on a busy machine; without an end it would be 60


@pytest.fixture
def frozen(npudoctor: Npudoctor, tmp_path: Path, lack: Callable[[str], None]) -> Callable[..., Done]:
    return runner(npudoctor, tmp_path / "logs" / "frozen", tmp_path, SOON, lack)


def test_what_is_mounted_in_the_folder(frozen: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "logs" / "worker_3.log").write_text(LINE)
    (tmp_path / "logs" / "link").symlink_to(tmp_path / "logs" / "frozen" / "x.log")
    done = frozen("explain", str(tmp_path / "logs"), "--format", "json")
    found = done.json
    assert (done.status, found["verdict"], found["complete"]) == (0, "environment", False)
    (unread,) = found["unread"]["first"]
    assert unread["path"].endswith("/frozen") and "does not answer" in unread["reason"]
    (tmp_path / "logs" / "worker_3.log").write_text("Training finished\n")
    done = frozen("explain", str(tmp_path / "logs"), "--format", "json")
    assert (done.status, done.json["verdict"]) == (1, "unknown")


def test_what_was_named_itself_or_is_named_by_a_link(frozen: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "link.log").symlink_to(tmp_path / "logs" / "frozen" / "x.log")
    for word in ("FROZEN/x.log", str(tmp_path / "link.log"), "FROZEN"):
        done = frozen("explain", word, "--deadline", "2")
        assert (done.status, done.out, done.err.count("\n")) == (64, "", 1) and "does not answer" in done.err


@pytest.mark.parametrize("name", ["HOME", "ASCEND_PROCESS_LOG_PATH"])
def test_the_newest_log_is_found_beside_it(frozen: Callable[..., Done], tmp_path: Path, name: str) -> None:
    (tmp_path / "slurm-1.out").write_text(LINE)
    done = frozen("explain", "--format", "json", **{name: "FROZEN"})
    assert (done.status, done.json["verdict"]) == (0, "environment")
    assert "does not answer; it may hold newer logs" in done.err


@pytest.mark.parametrize("name", ["HOME", "ASCEND_PROCESS_LOG_PATH"])
def test_run_returns_the_status_of_the_job(
    frozen: Callable[..., Done], npudoctor: Npudoctor, tmp_path: Path, name: str
) -> None:
    quiet_machine(npudoctor)
    (tmp_path / "slurm-1.out").touch()
    job = f"echo '{LINE.strip()}' >slurm-1.out; exit 7"
    done = frozen("run", "--force", "--", "sh", "-c", job, **{name: "FROZEN"})
    assert done.status == 7 and "A library of CANN is not on the loader's path" in done.err
