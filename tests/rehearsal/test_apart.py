"""Nothing of the real machine is touched: not by the work, not by what it starts, not after kill -9."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Callable

import pytest

from npudoctor.rehearsal import kernel, tree
from npudoctor.rehearsal.namespaces import CannotRehearse, run_in_namespaces
from npudoctor.rehearsal.play import build_own_command
from npudoctor.rehearsal.stage import Stage

WELL, ILL = 0, 9


@pytest.fixture(autouse=True)
def namespaces(lack: Callable[[str], None]) -> None:
    """Only where the kernel allows them."""
    try:
        run_in_namespaces(lambda: 0)
    except CannotRehearse as error:
        lack(str(error))


def inside(work: Callable[[Stage], bool]) -> int:
    """What a machine that is built says of it."""

    def play() -> int:
        tree.build_tree()
        stage = Stage()
        stage.begin()
        return WELL if work(stage) else ILL

    return run_in_namespaces(play)


def _refused(path: str) -> bool:
    """Whether a file cannot be opened for writing, which tells whether it could be changed."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    except OSError:
        return True
    return False


def _everywhere_closed() -> bool:
    """All that is shown of this machine: no folder takes a file."""
    with open("/proc/self/mountinfo", encoding="ascii") as file:
        mounts = [line.split() for line in file]
    shown = [words[4] for words in mounts if words[words.index("-") + 1] not in ("tmpfs", "proc", "devtmpfs")]
    folders = [path for path in shown if os.path.isdir(path)]
    return bool(folders) and not any(os.access(path, os.W_OK) for path in folders)


def test_what_is_shown_of_this_machine_is_read_only() -> None:
    assert inside(lambda stage: _everywhere_closed()) == WELL
    program = os.path.realpath("/bin/sh")
    assert inside(lambda stage: _refused(program)) == WELL


def test_settings_of_the_whole_kernel_cannot_be_changed() -> None:
    assert inside(lambda stage: not list(_writable("/proc"))) == WELL


def _writable(folder: str) -> Iterator[str]:
    """Files of the kernel that could be opened for writing, but for those of our network and of ourselves."""
    for name in os.listdir(folder):
        path = f"{folder}/{name}"
        if path == "/proc/sys/net" or name.isdigit() or name in ("self", "thread-self"):
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            yield from _writable(path)
        elif not _refused(path):
            yield path


def test_older_kernels_close_one_mount_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_SET_ATTRIBUTES", 100_000)
    assert inside(lambda stage: _everywhere_closed()) == WELL
    assert inside(lambda stage: not list(_writable("/proc"))) == WELL


def test_the_settings_of_its_own_network_may_be_changed() -> None:
    path = "/proc/sys/net/ipv4/ip_local_port_range"
    before = Path(path).read_text()

    def work(stage: Stage) -> bool:
        Path(path).write_text("40000 50000")
        return Path(path).read_text().split() == ["40000", "50000"]

    if os.geteuid() == 0:  # for others they belong to nobody
        assert inside(work) == WELL
    assert Path(path).read_text() == before


@pytest.mark.parametrize("limit", ["user", "net"])
def test_where_it_is_not_allowed_it_says_so(limit: str, need: Callable[..., None]) -> None:
    need("unshare")
    shut = f'echo 0 > /proc/sys/user/max_{limit}_namespaces && exec "$@"'
    command = ["unshare", "-Ur", "sh", "-c", shut, "sh", *build_own_command(), "rehearse", "slow-clock"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("npudoctor: cannot rehearse slow-clock: the kernel does not allow")


def test_devices_stay_as_they_are_and_do_their_work() -> None:
    def work(stage: Stage) -> bool:
        stage.add_npus(1)
        for path in ("/dev/null", "/dev/davinci0"):
            with open(path, "w") as file:
                file.write("x")
            with suppress(OSError):
                os.chmod(path, 0o600)
                return False
        return True

    assert inside(work) == WELL
    assert os.stat("/dev/null").st_mode & 0o777 == 0o666


def test_no_process_network_or_segment_of_this_machine_is_seen() -> None:
    shmids = Path("/proc/sysvipc/shm").read_text()

    def work(stage: Stage) -> bool:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
        made = kernel.make_segment(0x51C5, 4096)
        rows = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
        links = Path("/proc/net/dev").read_text().count(":")
        return pids == ["1"] and made >= 0 and len(rows) == 1 and links == 1

    assert inside(work) == WELL
    assert Path("/proc/sysvipc/shm").read_text() == shmids


def test_its_mounts_its_name_and_its_files_are_its_own() -> None:
    def state() -> tuple[str, str, list[str]]:
        return Path("/proc/self/mountinfo").read_text(), os.uname().nodename, sorted(os.listdir("/sys"))

    before = state()
    assert (
        inside(lambda stage: os.uname().nodename == "rehearsal" and os.listdir("/home") is not None) == WELL
    )
    assert state() == before


def test_what_the_work_raises_is_told() -> None:
    def work() -> int:
        raise CannotRehearse("no such thing here")

    with pytest.raises(CannotRehearse, match="no such thing here"):
        run_in_namespaces(work)
    assert run_in_namespaces(lambda: 7) == 7
    with pytest.raises(CannotRehearse, match="ZeroDivisionError"):
        run_in_namespaces(lambda: 1 // 0)


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(CannotRehearse, match="a process that sets up the fault failed: bind"):
        inside(lambda stage: stage.start_process(lambda: socket.socket().bind(("127.0.0.1", 99999))) > 0)


def _descendants(pid: int) -> set[int]:
    found: set[int] = set()
    todo = [pid]
    while todo:
        parent = todo.pop()
        with suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                children = Path(f"/proc/{parent}/task/{task}/children").read_text().split()
                todo += [int(child) for child in children]
                found |= {int(child) for child in children}
    return found


def _gone(pids: set[int]) -> bool:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_kill_in_the_middle_leaves_nothing(number: int) -> None:
    mounts, segments = Path("/proc/self/mountinfo").read_text(), Path("/proc/sysvipc/shm").read_text()
    temporary = set(os.listdir("/tmp"))
    command = [*build_own_command(), "rehearse", "dead-cache-server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _number in range(5)]
        assert "waiting" in lines[-1], lines  # the segment, the socket and a process are there now
        below = _descendants(process.pid)
        assert len(below) >= 2
        process.send_signal(number)
        process.wait(20)
        assert _gone(below)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert Path("/proc/sysvipc/shm").read_text() == segments
    assert not [name for name in set(os.listdir("/tmp")) - temporary if "mindspore" in name]
