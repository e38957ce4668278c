"""What takes over a second is told on a terminal's standard error, and nowhere else."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.support.roots import python_that
from tests.support.terminals import Terminal

from .command import Npudoctor

CAN = {"TERM": "xterm", "LANG": "C.UTF-8"}
CLEAR = "\r\x1b[K"


def terminal(run: Npudoctor, *arguments: str, columns: int = 80, term: str = "xterm") -> Terminal:
    environment = run.environment({**CAN, "TERM": term})
    return Terminal(run.argv(*arguments), environment, columns, cwd=str(run.folder))


@pytest.fixture
def slow(npudoctor: Npudoctor, trusted: Path) -> Npudoctor:
    """A python3 that takes its time to answer."""
    python = python_that(trusted / "python", "import time; time.sleep(300)")
    npudoctor.variables["NPUDOCTOR_PYTHON"] = str(python)
    return npudoctor


def test_the_program_that_is_waited_for_is_named(slow: Npudoctor) -> None:
    with terminal(slow, "check", "interpreter", "numpy-version", "-q", "--timeout", "3") as here:
        line = here.until("left: ").rpartition(CLEAR)[2]
        assert " s; waiting for python3" in line
        assert here.whole().rpartition(CLEAR)[2].startswith("undetermined: ")


ASKING = """
from npudoctor.cli.terminal import signals
from npudoctor.cli.terminal.progress import show_waiting_programs
from npudoctor.host import Host, Options

signals.install_handlers()
host = Host(Options(timeout=20))
try:
    with show_waiting_programs(host, "interrupted: nothing was set"):
        host.commands.run(["/bin/sleep", "10"], timeout=20)
except signals.StoppedBySignal as stopped:
    raise SystemExit(stopped.status)
"""


def test_who_waits_for_programs_alone_says_which(npudoctor: Npudoctor) -> None:
    """As `env` does, while it sources CANN's script."""
    argv = [sys.executable, "-c", ASKING]
    with Terminal(argv, npudoctor.environment(dict(CAN)), cwd=str(npudoctor.folder)) as here:
        here.until("2 s; waiting for sleep (2 s)")
        here.process.send_signal(signal.SIGINT)
        assert here.whole().endswith(f"{CLEAR}npudoctor: interrupted: nothing was set\n")
        assert here.process.returncode == 130


def test_an_interrupted_fix_says_whether_anything_was_done(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("slow", "time.sleep(60)\nreturn\nyield")
    with terminal(npudoctor, "fix", "slow", "--yes") as here:
        here.until("left: slow")
        here.process.send_signal(signal.SIGINT)
        assert here.whole().endswith("npudoctor: interrupted: nothing was changed\n")
        assert here.process.returncode == 130


def test_checks_that_have_no_result_yet_are_named(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("slow", "time.sleep(3)\nreturn\nyield")
    with terminal(npudoctor, "check", "slow", "-q", columns=60) as here:
        here.until("1 check left: slow")
        assert all(len(part) < 60 for part in here.whole().split(CLEAR)[:-1])
        assert here.said.endswith(CLEAR + "ready\r\n") and here.process.returncode == 0


def test_what_is_quick_says_nothing(npudoctor: Npudoctor) -> None:
    with terminal(npudoctor, "check", "clock", "-q") as here:
        assert here.whole() == "ready\n"


def test_off_a_terminal_there_is_nothing(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("slow", "time.sleep(2)\nreturn\nyield")
    assert npudoctor("check", "slow", "-q", **CAN).err == ""
    with terminal(npudoctor, "check", "slow", "-q", term="dumb") as here:
        assert here.whole() == "ready\n"


def test_ctrl_c_says_what_was_left_undone(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("slow", "time.sleep(60)\nreturn\nyield")
    with terminal(npudoctor, "check", "slow", "clock") as here:
        here.until("left: slow")
        here.process.send_signal(signal.SIGINT)
        text = here.whole()
        assert here.process.returncode == 130
    assert text.endswith(f"{CLEAR}npudoctor: interrupted: no result yet from slow\n")


def test_ctrl_c_off_a_terminal_says_nothing(npudoctor: Npudoctor) -> None:
    npudoctor.drop_in("slow", f"open('{npudoctor.folder}/begun', 'w')\ntime.sleep(60)\nreturn\nyield")
    process = npudoctor.start("check", "slow")
    while not (npudoctor.folder / "begun").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == (b"", b"") and process.returncode == 130


def test_a_pipe_tells_bytes_and_rate(npudoctor: Npudoctor) -> None:
    os.mkfifo(npudoctor.folder / "log")
    with terminal(npudoctor, "explain", "log", "--deadline", "30") as here:
        with open(npudoctor.folder / "log", "wb") as pipe:
            pipe.write(b"step 1\n" * 200_000)
            pipe.flush()
            time.sleep(1.2)
            here.until("MB/s")
            assert " s: 1.4 MB of " in here.said
        here.whole()


def test_logs_tell_bytes_rate_and_the_time_that_is_left(npudoctor: Npudoctor) -> None:
    log = npudoctor.folder / "train.log"
    with open(log, "wb") as file:
        # A word that signatures begin with makes it slow: on a busy machine too it is not over before Ctrl-C.
        words = [b"Error: failed", *[b"words that mean nothing"] * 7]
        lines = b"".join(b"[INFO] step %d: %s\n" % (n, words[n % 8]) for n in range(200_000))
        size = sum(file.write(lines) for _time in range(40))
    with terminal(npudoctor, "explain", "train.log", columns=100) as here:
        text = here.until(" s left")
        assert f" of {size / 1e6:.0f} MB read, " in text and " MB/s, " in text
        here.process.send_signal(signal.SIGINT)
        text = here.whole()
        assert here.process.returncode == 130
    assert "npudoctor: interrupted: " in text and "were read, and nothing was concluded\n" in text
