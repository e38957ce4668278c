"""Commands: whatever a program does, an answer comes in time, and nothing of it is left running."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import psutil
import pytest

from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.process.child_output import REAP_SECONDS, collect_output
from npudoctor.host.process.commands import Commands

SH = "/bin/sh"
SOON = 5.0  # a machine under load is slow, but nothing below may take its time from what it waits for


@pytest.fixture
def commands() -> Iterator[Commands]:
    made = Commands(Files(LocalDisk()), as_root=False)
    yield made
    made.close()


def program(folder: Path, text: str, mode: int = 0o755, name: str = "program") -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def gone(pid: int) -> bool:
    """Whether a process is no more, or will be as soon as somebody reaps it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def soon_gone(pid: int) -> bool:
    until = time.monotonic() + SOON
    while not gone(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return gone(pid)


def test_output_status_and_time(commands: Commands) -> None:
    answer = commands.run([SH, "-c", "echo out; echo err >&2; exit 3"])
    assert (answer.ended, answer.status, answer.ok) == ("exited", 3, False)
    assert (answer.stdout, answer.stderr) == ("out\n", "err\n")
    assert answer.seconds < SOON
    assert commands.run(["true"]).ok


class Late(selectors.DefaultSelector):
    """Sees nothing at its first look, as one that looked just before the program wrote."""

    def select(self, timeout: Optional[float] = None) -> list[tuple[selectors.SelectorKey, int]]:
        seen, self.looked = getattr(self, "looked", False), True
        return super().select(timeout) if seen else []


def test_what_is_written_between_a_look_and_the_end_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "DefaultSelector", Late)
    child = subprocess.Popen([SH, "-c", "echo last"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.wait()
    assert collect_output(child, time.monotonic() + SOON, 100) == ("exited", [b"last\n", b""])
    for pipe in (child.stdout, child.stderr):
        assert pipe is not None
        pipe.close()


def test_a_signal_is_a_negative_status(commands: Commands) -> None:
    answer = commands.run([SH, "-c", "kill -9 $$"])
    assert (answer.ended, answer.status) == ("exited", -signal.SIGKILL)


def test_no_shell_and_a_small_clean_environment(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/nonexistent.so")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert commands.run(["echo", "$HOME; ls"]).stdout == "$HOME; ls\n"
    names = {line.partition("=")[0]: line for line in commands.run(["env"]).stdout.splitlines()}
    assert names["LC_ALL"] == "LC_ALL=C"
    assert set(names) == {"PATH", "LC_ALL"}
    assert commands.run(["pwd"]).stdout == "/\n"
    assert commands.run(["env"], variables={"ONLY": "1"}).stdout == "ONLY=1\n"


def test_it_reads_from_nowhere(commands: Commands) -> None:
    assert commands.run(["cat"]).stdout == ""


def test_bytes_that_are_no_utf_8_are_kept(commands: Commands) -> None:
    assert os.fsencode(commands.run(["printf", r"\377"]).stdout) == b"\xff"


@pytest.mark.parametrize("name", ["npudoctor-no-such-program", "/nonexistent/program"])
def test_missing(commands: Commands, name: str) -> None:
    answer = commands.run([name])
    assert (answer.ended, answer.status, answer.ok) == ("missing", 127, False)


@pytest.mark.parametrize("text", ["#!/nonexistent/interpreter\n", "\x7fELF nonsense"])
def test_what_cannot_be_started(commands: Commands, tmp_path: Path, text: str) -> None:
    answer = commands.run([program(tmp_path, text)])
    assert answer.ended in ("missing", "not-started")
    assert not answer.ok
    assert answer.stderr


def test_what_may_not_be_executed(commands: Commands, tmp_path: Path) -> None:
    answer = commands.run([program(tmp_path, "#!/bin/sh\n", 0o644)])
    assert (answer.ended, answer.status) == ("not-started", None)
    assert commands.run(["echo", "a\0b"]).ended == "not-started"


def test_a_deadline_ends_the_whole_group(commands: Commands) -> None:
    answer = commands.run([SH, "-c", "sleep 1000 & echo $!; echo $$; sleep 1000"], timeout=0.5)
    assert (answer.ended, answer.status, answer.left_behind) == ("timeout", None, None)
    assert answer.seconds < 0.5 + REAP_SECONDS + SOON
    pids = [int(line) for line in answer.stdout.split()]
    assert len(pids) == 2, "what was said before the deadline is kept"
    assert all(soon_gone(pid) for pid in pids)


def test_a_program_that_ignores_signals_and_closed_its_output(commands: Commands) -> None:
    code = (
        "import os,signal,time;[signal.signal(s,signal.SIG_IGN) for s in (1,2,15)];"
        "os.close(1);os.close(2);time.sleep(1000)"
    )
    answer = commands.run([sys.executable, "-S", "-c", code], timeout=0.5)
    assert answer.ended == "timeout"
    assert answer.seconds < 0.5 + REAP_SECONDS + SOON


def test_a_stopped_program(commands: Commands) -> None:
    answer = commands.run([SH, "-c", "echo $$; kill -STOP $$"], timeout=0.5)
    assert answer.ended == "timeout"
    assert soon_gone(int(answer.stdout))


def test_a_flood_is_cut_and_ended(commands: Commands) -> None:
    before = psutil.Process().memory_info().rss
    answer = commands.run(
        [SH, "-c", "echo $$ >&2; exec head -c 1000000000 /dev/zero"], timeout=60, limit=1 << 20
    )
    assert (answer.ended, answer.ok) == ("flooded", False)
    assert len(answer.stdout) == 1 << 20
    assert soon_gone(int(answer.stderr))
    assert psutil.Process().memory_info().rss - before < 64 << 20


def test_a_flood_of_errors_is_bounded_too(commands: Commands) -> None:
    answer = commands.run([SH, "-c", "exec yes >&2"], timeout=60, limit=1000)
    assert answer.ended == "flooded"
    assert len(answer.stderr) == 1000


def test_just_as_much_as_allowed_is_no_flood(commands: Commands) -> None:
    answer = commands.run(["head", "-c", "100000", "/dev/zero"], limit=100000)
    assert answer.ok
    assert len(answer.stdout) == 100000


def test_a_daemon_that_holds_the_pipe_does_not_hold_us(commands: Commands) -> None:
    started = time.monotonic()
    answer = commands.run([SH, "-c", "setsid sleep 1000 & echo $!"], timeout=60)
    pid = int(answer.stdout)
    try:
        assert answer.ok
        assert time.monotonic() - started < SOON
        assert not gone(pid), "a daemon is not ours to end"
    finally:
        os.kill(pid, signal.SIGKILL)


def test_close_ends_what_still_runs(commands: Commands) -> None:
    answers = []
    thread = threading.Thread(target=lambda: answers.append(commands.run(["sleep", "1000"], timeout=60)))
    thread.start()
    until = time.monotonic() + SOON
    while not commands._running and time.monotonic() < until:
        time.sleep(0.01)
    commands.close()
    thread.join(SOON)
    assert [answer.status for answer in answers] == [-signal.SIGKILL]


@pytest.mark.needs_root
def test_root_runs_only_what_nobody_else_could_have_changed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    commands = Commands(Files(LocalDisk()), as_root=True)
    inside = tmp_path / "inside"
    inside.mkdir()
    path = program(inside, "#!/bin/sh\necho ran\n")
    assert commands.run([path]).stdout == "ran\n", "in a sticky folder others touch only their own"
    inside.chmod(0o777)
    assert Commands(Files(LocalDisk()), as_root=True).run([path]).ended == "untrusted"
    assert commands.run(["/bin/echo", "ran"]).stdout == "ran\n"
    assert commands.run(["/nonexistent"]).ended == "missing"


@pytest.mark.parametrize(
    ("owner", "mode", "parent_mode", "trusted"),
    [(0, 0o755, 0o755, True), (1000, 0o755, 0o755, False), (0, 0o775, 0o755, False), (0, 0o757, 0o755, False),
     (0, 0o755, 0o1777, True), (0, 0o755, 0o777, False), (0, 0o755, 0o775, False)],
)  # fmt: skip
def test_whom_root_trusts(owner: int, mode: int, parent_mode: int, trusted: bool) -> None:
    from npudoctor.testing import MemoryDisk, Node, folder, link

    disk = MemoryDisk(
        {
            "/opt": folder(parent_mode),
            "/opt/tool": Node(b"#!/bin/sh\n", permissions=mode, uid=owner),
            "/usr/bin/tool": link("/opt/tool"),
        }
    )
    assert Commands(Files(disk), as_root=True).is_trusted("/usr/bin/tool") is trusted


def test_nothing_starts_once_the_run_is_over(tmp_path: Path) -> None:
    """Threads that were left behind go on asking: what they start then nobody would end."""
    commands = Commands(Files(LocalDisk()), as_root=False)
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            commands.run(["/bin/sh", "-c", f"echo $$ >>{tmp_path}/pids; sleep 60"], timeout=60)

    threads = [threading.Thread(target=ask, daemon=True) for _number in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    commands.close()
    assert commands.run(["/bin/true"]).ended == "not-started"
    stop.set()
    for thread in threads:
        thread.join(10)
    pids = (tmp_path / "pids").read_text().split()
    assert pids and not [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()]
