"""run: who sends a signal, and whom it means; each reaches the job once, or does not by right."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

from .command import Npudoctor, heed_signals
from .running import children, job, job_of, quiet_machine, wait_for
from .test_signals import gone

LONG = "1000000"


@pytest.fixture
def run(npudoctor: Npudoctor) -> Npudoctor:
    """The command on a machine that is ready."""
    return quiet_machine(npudoctor)


@pytest.fixture
def leader(run: Npudoctor) -> Iterator[Callable[..., tuple[int, int]]]:
    """Starts a line as the first process of a terminal's session, as `ssh -t` does: its pid, the terminal."""
    started: list[tuple[int, int]] = []

    def leader(*words: str) -> tuple[int, int]:
        pid, terminal = pty.fork()
        if pid == 0:
            heed_signals()
            os.chdir(run.folder)
            os.execvpe(words[0], list(words), run.environment({}))  # noqa: S606
        started.append((pid, terminal))
        wait_for(run.folder / "started")
        return started[-1]

    yield leader
    for pid, _terminal in started:
        for one in (*_below(pid), pid):
            os.kill(one, signal.SIGKILL)
        os.waitpid(pid, 0)


def _below(pid: int) -> list[int]:
    try:
        return [one for child in children(pid) for one in (child, *_below(child))]
    except OSError:
        return []


def test_a_lost_connection_is_told_to_the_job(run: Npudoctor, leader: Callable[..., tuple[int, int]]) -> None:
    """The kernel tells only the first process of the session, which is ours."""
    _pid, terminal = leader(*run.argv("run", *job(run, LONG, "--note")))
    os.close(terminal)
    wait_for(run.folder / "signals.log", "SIGHUP\n")
    time.sleep(0.3)
    assert (run.folder / "signals.log").read_text().count("SIGHUP") == 1


def test_an_interrupt_reaches_the_job_of_a_first_process_once(
    run: Npudoctor, leader: Callable[..., tuple[int, int]]
) -> None:
    _pid, terminal = leader(*run.argv("run", *job(run, LONG, "--note")))
    os.write(terminal, b"\x03")
    wait_for(run.folder / "signals.log", "SIGINT\n")
    time.sleep(0.3)
    assert (run.folder / "signals.log").read_text() == "SIGINT\n"
    os.close(terminal)


@pytest.mark.parametrize("through", ["shell", "direct"])
def test_where_no_shell_waits_a_stop_of_the_job_is_not_ours(
    run: Npudoctor, leader: Callable[..., tuple[int, int]], through: str
) -> None:
    """Nobody would continue us: who stopped the job to look at it continues the job alone."""
    line = run.argv("run", *job(run, LONG))
    pid, terminal = leader(*(["bash", "-c", shlex.join(line) + "; exit $?"] if through == "shell" else line))
    us = pid if through == "direct" else children(pid)[0]
    stopped = job_of(us)
    os.kill(stopped, signal.SIGSTOP)
    time.sleep(0.3)
    assert Path(f"/proc/{us}/stat").read_text().rpartition(")")[2].split()[0] == "S"
    os.kill(stopped, signal.SIGKILL)
    assert gone(us)
    os.close(terminal)


def test_an_alarm_that_was_set_before_us_is_the_jobs(run: Npudoctor, need: Any) -> None:
    """It stays over an exec, not over a fork: the old way to limit a command's time."""
    need("perl")
    line = ["perl", "-e", "alarm 2; exec @ARGV", *run.argv("run", "sleep", "30")]
    done = subprocess.run(line, env=run.environment({}), cwd=run.folder, timeout=20, check=False)
    assert done.returncode == 128 + signal.SIGALRM


@pytest.fixture
def training(run: Npudoctor) -> Iterator[subprocess.Popen[bytes]]:
    """A training under the installed command, whose name is npudoctor."""
    command = shutil.which("npudoctor", path=os.path.dirname(run.argv()[0]))
    assert command
    us = subprocess.Popen(
        [command, "run", "--", *job(run, LONG, "--note")], env=run.environment({}), cwd=run.folder,
        stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=heed_signals,
    )  # fmt: skip
    wait_for(run.folder / "started")
    yield us
    if us.poll() is None:
        os.killpg(us.pid, signal.SIGKILL)
        us.wait(20)


@pytest.mark.parametrize("words", [["npudoctor"], ["-f", "npudoctor run"], ["-f", "train.py"]])
def test_a_signal_by_name_reaches_the_job_once(
    run: Npudoctor, training: subprocess.Popen[bytes], need: Any, words: list[str]
) -> None:
    """Whether the name is ours, the job's, or in the words of both."""
    need("pkill")
    subprocess.run(["pkill", "-USR1", "--session", str(training.pid), *words], check=True)
    wait_for(run.folder / "signals.log", "SIGUSR1\n")
    time.sleep(0.4)
    assert (run.folder / "signals.log").read_text() == "SIGUSR1\n"


def test_signals_without_a_pause_do_not_hide_the_end(
    run: Npudoctor, training: subprocess.Popen[bytes]
) -> None:
    os.kill(job_of(training.pid), signal.SIGKILL)
    until = time.monotonic() + 3
    while training.poll() is None and time.monotonic() < until:
        os.kill(training.pid, signal.SIGUSR1)
        time.sleep(0.003)
    assert training.returncode == 137
