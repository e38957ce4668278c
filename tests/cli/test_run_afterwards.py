"""`npudoctor run` ends with what `explain` says of the logs that a failed job wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .command import Npudoctor
from .running import quiet_machine

FAILS = "raise OSError('libhccl.so: cannot open shared object file: No such file or directory')\n"
SAYS = "A library of CANN is not on the loader's path"
ERROR = (
    "Traceback (most recent call last):\\n  File 'x'\\nOSError: libhccl.so: cannot open shared object file: "
    "No such file or directory\\n"
)
MSRUN = f"""
import pathlib, sys
pathlib.Path("msrun_log/worker_3.log").write_text("{ERROR}")
sys.exit(5)
"""


@pytest.fixture
def run(npudoctor: Npudoctor) -> Npudoctor:
    """The command on a machine that is ready."""
    return quiet_machine(npudoctor)


def into_files(run: Npudoctor, *argv: str) -> tuple[int, str]:
    """Its status, and its standard error, both streams being files."""
    with (run.folder / "out").open("wb") as out, (run.folder / "err").open("wb") as err:
        us = run.start("run", "--", *argv, stdout=out, stderr=err)
        status = us.wait(60)
    return status, (run.folder / "err").read_text()


def test_a_failure_that_is_known_is_explained(run: Npudoctor) -> None:
    (run.folder / "train.py").write_text(FAILS)
    status, said = into_files(run, sys.executable, "train.py")
    assert status == 1 and SAYS in said and said.index("OSError: libhccl.so") < said.index(SAYS)


OF_EARLIER = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"


@pytest.mark.parametrize("mode", ["ab", "r+b"])
def test_what_was_in_the_file_before_the_job_is_not_its_failure(run: Npudoctor, mode: str) -> None:
    """Whether it is appended to or written on from a place; lines have the numbers that they have in it."""
    (run.folder / "train.py").write_text(FAILS)
    log = run.folder / "tr.log"
    log.write_text(3 * OF_EARLIER)
    with log.open(mode) as out:
        out.seek(0, os.SEEK_END)
        run.start("run", "--", sys.executable, "train.py", stdout=out, stderr=out).wait(60)
    lines = log.read_text().splitlines()
    said = "\n".join(lines[lines.index(FAILS.partition("raise ")[2].replace("('", ": ").strip("')\n")) + 1 :])
    number = next(n for n, line in enumerate(lines, 1) if line.startswith("OSError: libhccl.so"))
    assert SAYS in said and f"tr.log:{number}\n" in said.replace(" ", "\n"), said
    assert "memory" not in said


def test_of_a_file_that_the_job_has_emptied_all_is_its_own(run: Npudoctor) -> None:
    (run.folder / "train.py").write_text(f"open('tr.log', 'w').close()\n{FAILS}")
    log = run.folder / "tr.log"
    log.write_text(300 * OF_EARLIER)
    with log.open("ab") as out:
        run.start("run", "--", sys.executable, "train.py", stdout=out, stderr=out).wait(60)
    assert SAYS in log.read_text()


def test_logs_of_the_ranks_are_read_and_those_of_earlier_jobs_are_not(run: Npudoctor) -> None:
    (run.folder / "train.py").write_text(MSRUN)
    (run.folder / "msrun_log").mkdir()
    old = run.folder / "msrun_log/worker_0.log"
    old.write_text("Traceback (most recent call last):\n  File 'y'\nKeyError: 'of yesterday'\n")
    os.utime(old, (time.time() - 3600,) * 2)
    done = run("run", sys.executable, "train.py")
    assert done.status == 5 and SAYS in done.err and "worker_3.log" in done.err, done
    assert "yesterday" not in done.err


@pytest.mark.parametrize("line", ["exit 0", "exit 3", "echo fine; exit 3", "kill -TERM $$", "exit 127"])
def test_where_nothing_is_explained_nothing_is_said(run: Npudoctor, line: str) -> None:
    _status, said = into_files(run, "sh", "-c", line)
    assert said == ""


def test_nobody_has_to_wait_for_it(run: Npudoctor) -> None:
    """A log that is a pipe cannot be read to its end; Ctrl-C goes on to the job's own status."""
    (run.folder / "msrun_log").mkdir()
    big = f"yes 'RuntimeError: x' | head -c 300000000 >{run.folder}/msrun_log/worker_0.log; echo over; exit 9"
    us = run.start("run", "--", "sh", "-c", big, stderr=subprocess.DEVNULL)
    assert us.stdout is not None
    assert us.stdout.readline() == b"over\n"
    time.sleep(0.5)
    us.send_signal(signal.SIGINT)
    began = time.monotonic()
    assert us.wait(30) in (9, 130) and time.monotonic() - began < 5


def test_a_file_that_is_gone_is_no_failure_of_ours(run: Npudoctor, tmp_path: Path) -> None:
    status, said = into_files(
        run, "sh", "-c", f"rm {run.folder}/out {run.folder}/err; : >{run.folder}/err; exit 4"
    )
    assert (status, said) == (4, "")


def test_a_pipe_with_the_name_of_a_log_is_not_waited_for(run: Npudoctor) -> None:
    os.mkfifo(run.folder / "slurm-7.out")
    (run.folder / "train.py").write_text(FAILS)
    began = time.monotonic()
    status, said = into_files(run, sys.executable, "train.py")
    assert status == 1 and SAYS in said and time.monotonic() - began < 20


def test_a_link_with_the_name_of_a_log_leads_nowhere(run: Npudoctor, tmp_path: Path) -> None:
    """Where a job runs others may write too: what they link to is none of its logs."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "secret.log").write_text(f"{FAILS}\n")
    job = "for name in slurm-7.out msrun_log/x.log; do ln -s ../other/secret.log $name; done; exit 5"
    (run.folder / "msrun_log").mkdir()
    status, said = into_files(run, "sh", "-c", job + f" # {other}")
    assert status == 5 and SAYS not in said and "secret" not in said
