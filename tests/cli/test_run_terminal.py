"""run on a terminal, under a real shell: Ctrl-C once, Ctrl-Z and fg, a job that reads and paints."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest

from .command import Npudoctor, heed_signals
from .running import job, quiet_machine, wait_for

LONG = "1000000"


class Shell:
    """An interactive bash on a terminal of its own."""

    def __init__(self, run: Npudoctor) -> None:
        self.said = ""
        environment = {**run.environment({}), "PS1": "READY> ", "TERM": "dumb"}
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            heed_signals()
            os.chdir(run.folder)
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], environment)  # noqa: S606
        self.until("READY> ")

    def type(self, text: str) -> None:
        """What a person types; Ctrl-C is \\x03."""
        os.write(self._terminal, text.encode())

    def until(self, pattern: str, seconds: float = 20) -> str:
        """Read until the pattern comes; what came up to its end."""
        end = time.monotonic() + seconds
        while not (match := re.search(pattern, self.said)):
            left = end - time.monotonic()
            assert left > 0, f"no {pattern!r} in {self.said!r}"
            if select.select([self._terminal], [], [], left)[0]:
                self.said += os.read(self._terminal, 1 << 16).decode("utf-8", "replace")
        told, self.said = self.said[: match.end()], self.said[match.end() :]
        return told

    def close(self) -> None:
        for pid in [*(int(child) for child in _children(self.pid)), self.pid]:
            try:
                os.killpg(os.getpgid(pid), signal.SIGKILL)
            except ProcessLookupError:
                continue
        os.close(self._terminal)
        os.waitpid(self.pid, 0)


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.fixture
def run(npudoctor: Npudoctor) -> Npudoctor:
    """The command on a machine that is ready."""
    return quiet_machine(npudoctor)


@pytest.fixture
def shell(run: Npudoctor) -> Iterator[Shell]:
    """A shell whose processes end with the test."""
    shell = Shell(run)
    yield shell
    shell.close()


def line(run: Npudoctor, *command: str) -> str:
    return shlex.join(run.argv("run", *command))


def test_an_interrupt_arrives_once(run: Npudoctor, shell: Shell) -> None:
    shell.type(line(run, *job(run, LONG, "--note")) + "; echo status $?\n")
    wait_for(run.folder / "started")
    shell.type("\x03")
    wait_for(run.folder / "signals.log", "SIGINT\n")
    time.sleep(0.3)
    shell.type("\x1c")
    wait_for(run.folder / "signals.log", "SIGQUIT\n")
    time.sleep(0.3)
    assert (run.folder / "signals.log").read_text() == "SIGINT\nSIGQUIT\n"


def test_an_interrupted_training_is_130(run: Npudoctor, shell: Shell) -> None:
    shell.type(line(run, *job(run, LONG)) + "; echo status $?\n")
    wait_for(run.folder / "started")
    shell.type("\x03")
    assert "KeyboardInterrupt" in shell.until("status 130\r\n")
    shell.until("READY> ")


def test_an_interrupt_during_the_check_starts_nothing(run: Npudoctor, shell: Shell) -> None:
    run.drop_in("slow", f"open('{run.folder}/asked', 'w')\ntime.sleep(300)\nyield", scope="JOB")
    shell.type(line(run, "touch", "begun") + "; echo status $?\n")
    wait_for(run.folder / "asked")
    shell.type("\x03")
    shell.until("status 130\r\n")
    assert not (run.folder / "begun").exists()


@pytest.mark.parametrize("through", ["bash", "direct"])
def test_stop_and_go_on(run: Npudoctor, shell: Shell, through: str) -> None:
    """Ctrl-Z, bg, fg, and again: as the job would without us; ours is one job for the shell."""
    command = job(run, LONG, "--note")
    words = ["bash", "-c", shlex.join(command) + "; exit $?"] if through == "bash" else command
    shell.type(line(run, *words) + "; echo status $?\n")
    wait_for(run.folder / "started")
    for _time in range(2):
        shell.type("\x1a")
        shell.until("Stopped")
        shell.until("READY> ")
        _until(run, lambda states: set(states) == {"T"})  # the shell waits for ours only
        shell.type("fg; echo status $?\n")
        _until_running(run)
    shell.type("\x1a")
    shell.until("Stopped")
    shell.type("bg\n")
    _until_running(run)
    shell.type("jobs\n")
    shell.until("Running")
    shell.type("kill -KILL " + str(_trainings(run)[-1]) + "; fg; echo status $?\n")
    assert shell.until(r"status \d+\r\n").endswith("status 137\r\n")


def test_reading_in_the_background_stops_both_until_fg(run: Npudoctor, shell: Shell) -> None:
    """`until` fails when the job is not stopped, or does not get the word."""
    shell.type(line(run, "bash", "-c", "read word; echo got $word") + " &\n")
    shell.until("READY> ")
    # A busy machine: the shell tells of a stopped job when it asks for the next line.
    shell.type("until jobs | grep Stopped; do sleep 0.1; done\n")
    shell.until(r"Stopped  (.|\n)*READY> ")
    shell.type("fg\n")
    shell.until("got")  # the command's words
    shell.type("typed\n")
    shell.until("got typed\r\n")
    shell.type("echo status $?\n")
    assert shell.until(r"status \d+\r\n").endswith("status 0\r\n")


def test_the_job_has_the_terminal(run: Npudoctor, shell: Shell) -> None:
    code = "import os; print([os.isatty(n) for n in (0, 1, 2)], os.tcgetpgrp(0) == os.getpgrp())"
    code += "; print(input()[::-1])"
    shell.type(line(run, sys.executable, "-c", code) + "\n")
    assert shell.until(r"\[\w+, .*\r\n").endswith("[True, True, True] True\r\n")
    shell.type("abc\n")
    shell.until("cba\r\n")


def test_a_shell_as_the_job_controls_its_own_jobs(run: Npudoctor, shell: Shell) -> None:
    """`until` fails when Ctrl-Z stops more than the inner job."""
    shell.type("PS1='INNER> ' " + line(run, "bash", "--norc", "--noprofile", "-i") + "; echo status $?\n")
    shell.until("INNER> $")
    shell.type("sleep 300\n")
    time.sleep(0.3)
    shell.type("\x1a")
    shell.until("Stopped")
    shell.type("kill -KILL %1; sleep 0.2; exit 9\n")
    assert shell.until(r"status \d+\r\n").endswith("status 9\r\n")


def _states(run: Npudoctor) -> list[str]:
    return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in _trainings(run)]


def _until(run: Npudoctor, right: Callable[[list[str]], bool]) -> None:
    until = time.monotonic() + 20
    while not right(_states(run)):
        assert time.monotonic() < until, _states(run)
        time.sleep(0.02)


def _until_running(run: Npudoctor) -> None:
    _until(run, lambda states: "T" not in states)


def _trainings(run: Npudoctor) -> list[int]:
    """The pids of `run` and of the job; the witness is not asked to stop."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            if str(run.folder / "train.py").encode() in b" ".join(words) and not _is_witness(path):
                found.append(int(path.name))
        except OSError:
            continue
    return sorted(found)


def _is_witness(path: Path) -> bool:
    return (path / "cmdline").read_bytes().startswith(b"witness:")
