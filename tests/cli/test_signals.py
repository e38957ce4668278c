"""SIGINT and SIGTERM: 130 and 143, nothing half-written, nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.roots import NOTE, python_that

from npudoctor.cli.terminal import signals

from .command import Npudoctor
from .running import wait_for


def gone(pid: int) -> bool:
    """Whether the process ends within a second; one that nobody has reaped yet counts as ended."""
    until = time.monotonic() + 1
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


FAMILY = """
children = [subprocess.Popen(["sleep", "300"]), subprocess.Popen(["sleep", "300"], start_new_session=True)]
pids = [os.getpid(), *(child.pid for child in children)]
with open("{folder}/pids.new", "w") as file:
    file.write(" ".join(map(str, pids)))
os.rename("{folder}/pids.new", "{folder}/pids")
time.sleep(300)
"""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize("loading", [False, True])
def test_a_signal_ends_the_run_and_all_that_it_started(
    npudoctor: Npudoctor, tmp_path: Path, number: signal.Signals, status: int, loading: bool
) -> None:
    family = FAMILY.format(folder=tmp_path)
    npudoctor.drop_in("stuck", "yield" if loading else family + "\nyield", top=family if loading else "")
    (tmp_path / "report").write_text("old")
    running = npudoctor.start("check", "stuck", "--format", "json", "--output", "report")
    wait_for(tmp_path / "pids")
    os.kill(running.pid, number)
    out, err = running.communicate(timeout=20)
    assert (running.returncode, out, err) == (status, b"", b"")
    assert (tmp_path / "report").read_text() == "old" and not list(tmp_path.glob(".npudoctor-*"))
    assert [pid for pid in map(int, (tmp_path / "pids").read_text().split()) if not gone(pid)] == []


def test_nobody_is_left_behind_when_it_is_killed(npudoctor: Npudoctor, tmp_path: Path) -> None:
    npudoctor.drop_in("stuck", FAMILY.format(folder=tmp_path) + "\nyield")
    running = npudoctor.start("check", "stuck")
    wait_for(tmp_path / "pids")
    running.kill()
    running.communicate(timeout=20)
    assert all(gone(pid) for pid in map(int, (tmp_path / "pids").read_text().split()))


@pytest.mark.parametrize("command", ["check", "fix"])
def test_the_interpreter_being_asked_is_ended_too(npudoctor: Npudoctor, trusted: Path, command: str) -> None:
    note = NOTE.format(path=str(trusted / "pid"))
    python = python_that(trusted / "python", note + "import time; time.sleep(300)")
    npudoctor.drop_in("slow", "time.sleep(300)\nyield")
    npudoctor.variables["NPUDOCTOR_PYTHON"] = str(python)
    running = npudoctor.start(command, "slow")
    wait_for(trusted / "pid", "\n")
    running.terminate()
    assert running.wait(20) == 143
    running.communicate()
    assert gone(int((trusted / "pid").read_text()))


def test_an_ignored_hang_up_stays_ignored(npudoctor: Npudoctor, tmp_path: Path) -> None:
    npudoctor.drop_in("slow", f"open('{tmp_path}/asked', 'w')\ntime.sleep(1)\nreturn\nyield")
    running = npudoctor.start(
        "check", "slow", "-q", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    wait_for(tmp_path / "asked")
    os.kill(running.pid, signal.SIGHUP)
    assert running.communicate(timeout=20)[0] == b"ready\n"


def test_a_signal_at_any_moment_ends_it_at_once(npudoctor: Npudoctor) -> None:
    """Before Python listens the system ends it; afterwards we do. Neither is a verdict."""
    npudoctor.drop_in("stuck", "time.sleep(300)\nyield")
    for moment in range(20):
        running = npudoctor.start("check", "stuck", "--format", "json")
        time.sleep(moment / 40)
        running.terminate()
        out, err = running.communicate(timeout=20)
        assert (running.returncode in (143, -signal.SIGTERM), out, err) == (True, b"", b""), moment


def test_a_signal_that_python_hides_in_another_error_is_found() -> None:
    """As Python before 3.12 does with what is raised while a class is being made."""
    stopped = signals.StoppedBySignal(signal.SIGTERM)
    try:
        try:
            raise stopped
        except signals.StoppedBySignal as cause:
            raise RuntimeError("Error calling __set_name__") from cause
    except RuntimeError as error:
        assert signals.find_signal(error) is stopped
    circle = ValueError("a")
    circle.__context__ = KeyError("b")
    circle.__context__.__context__ = circle
    assert signals.find_signal(circle) is None


def test_one_that_was_hidden_ends_it_all_the_same() -> None:
    """The whole way: the status of the signal, and no traceback."""
    line = (
        "from npudoctor.cli import main; from npudoctor.cli.terminal import signals\n"
        "def work():\n"
        "    try:\n        raise signals.StoppedBySignal(15)\n"
        "    except signals.StoppedBySignal as stopped:\n        raise RuntimeError('x') from stopped\n"
        "main._run_to_status(work)\n"
    )
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, b"", b"")
