"""run: signals reach the job once, whoever sends them, and nobody outlives its npudoctor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

from .command import Npudoctor, heed_signals
from .running import children, job, job_of, quiet_machine, wait_for
from .test_signals import gone

pytestmark = pytest.mark.once

LONG = "1000000"


@pytest.fixture
def run(npudoctor: Npudoctor) -> Npudoctor:
    """The command on a machine that is ready."""
    return quiet_machine(npudoctor)


class Started:
    """A training under `run` in a process group of its own."""

    def __init__(self, run: Npudoctor, *arguments: str, **options: Any) -> None:
        self.folder = run.folder
        for name in ("started", "signals.log"):
            (self.folder / name).unlink(missing_ok=True)
        line = run.argv("run", *job(run, LONG, *arguments))
        self.us = subprocess.Popen(
            line, env=run.environment({}), cwd=run.folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            start_new_session=True, **{"preexec_fn": heed_signals, **options},
        )  # fmt: skip
        wait_for(self.folder / "started")
        self.job = job_of(self.us.pid)

    def heard(self, settle: float = 0.4) -> list[str]:
        """The signals that the job noted, once no more are under way."""
        wait_for(self.folder / "signals.log", "\n")
        time.sleep(settle)
        return (self.folder / "signals.log").read_text().split()

    def state(self, pid: int) -> str:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def start(run: Npudoctor) -> Iterator[Any]:
    """Starts trainings and leaves none behind."""
    begun: list[Started] = []

    def start(*arguments: str, **options: Any) -> Started:
        begun.append(Started(run, *arguments, **options))
        return begun[-1]

    yield start
    for one in begun:
        if one.us.poll() is None:
            os.kill(one.job, signal.SIGKILL)
            one.us.wait(20)
        one.us.communicate()


@pytest.mark.parametrize(
    ("send", "names"),
    [
        (os.kill, ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT", "ALRM", "ABRT"]),
        (os.killpg, ["INT", "TERM", "USR1"]),  # as `kill %1` and timeout do
    ],
    ids=["us alone", "the whole group"],
)
def test_what_is_sent_reaches_the_job_once(
    start: Any, send: Callable[[int, int], None], names: list[str]
) -> None:
    started = start("--note")
    for number, name in enumerate(names):
        send(started.us.pid, getattr(signal, f"SIG{name}"))
        wait_for(started.folder / "signals.log", "\n".join([f"SIG{one}" for one in names[: number + 1]]))
    assert started.heard() == [f"SIG{name}" for name in names]
    assert started.us.poll() is None


def test_what_is_sent_to_each_process_reaches_the_job_once(start: Any) -> None:
    """As a batch system does, one process after the other, and then a person once more."""
    started = start("--note")
    for pid in (started.us.pid, *children(started.us.pid)):
        os.kill(pid, signal.SIGTERM)
        time.sleep(0.005)
    assert started.heard() == ["SIGTERM"]
    os.kill(started.us.pid, signal.SIGTERM)
    time.sleep(0.4)
    assert started.heard(0) == ["SIGTERM"] * 2


def test_what_the_job_sends_to_its_group_does_not_come_back(run: Npudoctor) -> None:
    code = "import os,signal,time; told=[]; signal.signal(15, lambda *a: told.append(1)); os.kill(0, 15)"
    code += "; time.sleep(0.4); raise SystemExit(len(told))"
    done = subprocess.run(
        run.argv("run", sys.executable, "-c", code), env=run.environment({}),
        cwd=run.folder, start_new_session=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_the_default_ends_the_job_and_its_status_says_so(start: Any, name: str) -> None:
    started = start()
    number = getattr(signal, f"SIG{name}")
    os.kill(started.us.pid, number)
    assert started.us.wait(20) == (130 if name == "INT" else 128 + number)
    assert gone(started.job)


def test_the_job_may_save_its_work_on_sigterm(start: Any) -> None:
    started = start("--note", "--checkpoint")
    started.us.terminate()
    assert started.us.wait(20) == 0
    assert (started.folder / "checkpoint.json").exists()


def test_a_quit_leaves_no_core_of_ours(start: Any) -> None:
    started = start()
    os.kill(started.us.pid, signal.SIGQUIT)
    assert started.us.wait(20) == 128 + signal.SIGQUIT


def test_a_killed_npudoctor_takes_the_job_along(start: Any) -> None:
    started = start("--note", "--checkpoint")
    others = children(started.us.pid)
    started.us.kill()
    started.us.wait(20)
    assert all(gone(pid) for pid in others)
    assert (started.folder / "checkpoint.json").exists()  # it got SIGTERM, not SIGKILL


def test_the_job_is_ended_when_its_npudoctor_is_killed_at_any_moment(run: Npudoctor) -> None:
    line = run.argv("run", *job(run, LONG))
    before = {int(path.name) for path in Path("/proc").glob("[0-9]*")}
    for moment in range(8):
        (run.folder / "started").unlink(missing_ok=True)
        us = subprocess.Popen(
            line, env=run.environment({}), cwd=run.folder, stdin=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(moment * 0.06)
        us.kill()
        us.wait(20)
    until = time.monotonic() + 20
    while left := [pid for pid in _trainings(run) if pid not in before]:
        assert time.monotonic() < until, left
        time.sleep(0.05)


def _trainings(run: Npudoctor) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if str(run.folder).encode() in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def test_a_stop_of_the_job_alone_does_not_stop_us(start: Any) -> None:
    """Somebody looks at the job, and lets it go on later; without a terminal no shell would wake us."""
    started = start()
    os.kill(started.job, signal.SIGSTOP)
    time.sleep(0.2)
    assert started.state(started.job) == "T" and started.state(started.us.pid) == "S"
    os.kill(started.us.pid, signal.SIGCONT)
    time.sleep(0.2)
    assert started.state(started.job) != "T"
    started.us.terminate()
    assert started.us.wait(20) == 143


def test_what_the_caller_ignores_stays_ignored(run: Npudoctor) -> None:
    done = run.shell('trap "" HUP; "$@" run bash -c "kill -HUP \\$\\$; kill -HUP \\$PPID; sleep 0.3; exit 6"')
    assert done.status == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_during_the_check_nothing_is_started(run: Npudoctor, number: signal.Signals) -> None:
    run.drop_in("slow", f"open('{run.folder}/asked', 'w')\ntime.sleep(300)\nyield", scope="JOB")
    running = run.start("run", "touch", "begun", start_new_session=True)
    wait_for(run.folder / "asked")
    os.kill(running.pid, number)
    assert running.wait(20) == 128 + number
    assert running.communicate() == (b"", b"") and not (run.folder / "begun").exists()
    assert _trainings(run) == []


def test_as_the_first_process_it_reaps_orphans(run: Npudoctor, need: Any, lack: Any) -> None:
    need("unshare")
    if os.geteuid() != 0:
        lack("a pid namespace needs root")
    code = (
        "(sleep 0.1 & sleep 0.2 &) ; sleep 0.5; cat /proc/[0-9]*/stat | grep -c ') Z '; "
        "kill -TERM 1; sleep 0.5"
    )
    line = ["unshare", "--pid", "--fork", "--mount-proc", *run.argv("run", "bash", "-c", code)]
    done = subprocess.run(
        line, env=run.environment({}), cwd=run.folder, capture_output=True, timeout=60, check=False
    )
    assert done.stdout == b"0\n", done
