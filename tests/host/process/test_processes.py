"""Processes as /proc shows them: odd names, zombies, strangers, and the segments that they map."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.headless import headless

from npudoctor.host import CannotTell
from npudoctor.host.fs.files import LocalDisk
from npudoctor.host.process.processes import (
    Process,
    Processes,
    parse_maps,
    parse_stat,
    pid_exists,
    ticks_per_second,
)
from npudoctor.testing import OUR_PID, MemoryDisk, fake_host, link, process_files, unreadable

STAT = (
    "24117 (dataset-cache-s) S 1 24117 24117 0 -1 4194624 2216 0 0 0 12 9 0 0 20 0 47 0 "
    "8812345 5872025600 17408 18446744073709551615 1 1 0 0 0 0 0 0 16898 0 0 0 17 1 0 0 0 0 0 0 0\n"
)
MAPS = (
    "559b1c000000-559b1c001000 r--p 00000000 fe:00 1835021    /opt/python3.11/bin/python3.11\n"
    "7f111c000000-7f121c000000 rw-s 00000000 00:01 0                          /SYSV6100e202 (deleted)\n"
    "7f2214000000-7f2214001000 rw-s 00000000 00:01 32774                      /SYSV0000c07d (deleted)\n"
    "7f2215000000-7f2215001000 rw-s 00000000 00:01 8                          /SYSVdd000001 (deleted)\n"
    "7f3333000000-7f3333001000 rw-s 00000000 00:17 9                          /dev/shm/SYSV6100e202\n"
    "7ffd5d000000-7ffd5d021000 rw-p 00000000 00:00 0                          [stack]\n"
)


@pytest.fixture
def sleeper() -> Iterator[psutil.Process]:
    with subprocess.Popen(["sleep", "1000"]) as child:
        yield psutil.Process(child.pid)
        child.kill()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_stat_line() -> None:
    assert parse_stat(24117, STAT, 1000) == Process(
        pid=24117, name="dataset-cache-s", state="S", parent=1, session=24117, started=8812345, uid=1000,
        cpu=21, threads=47, group=24117,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["a b", "(sd-pam)", ") S 1 1 1", "x) R (y", "", "caf\udce9", "new\nline"])
def test_names_may_hold_anything(name: str) -> None:
    found = parse_stat(7, STAT.replace("dataset-cache-s", name), 0)
    assert (found.name, found.state, found.parent, found.started) == (name, "S", 1, 8812345)


def test_a_zombie_whose_threads_live_is_not_gone() -> None:
    assert not parse_stat(7, STAT.replace(" S ", " Z "), 0).has_exited


@pytest.mark.parametrize(
    ("state", "gone"), [("R", False), ("D", False), ("T", False), ("Z", True), ("X", True)]
)
def test_a_zombie_is_gone(state: str, gone: bool) -> None:
    alone = STAT.replace(" 20 0 47 ", " 20 0 1 ")
    assert parse_stat(7, alone.replace(" S ", f" {state} "), 0).has_exited is gone


def test_the_inode_of_a_mapping_is_the_shmid() -> None:
    assert parse_maps(MAPS) == {0: 0x6100E202, 32774: 0xC07D, 8: 0xDD000001}
    assert parse_maps("") == {}


def test_a_stat_that_is_cut_is_a_process_that_ended() -> None:
    disk = MemoryDisk({**process_files(7), **process_files(8), "/proc/8/stat": "8 (a) S", "/proc/9/stat": ""})
    assert set(Processes(disk).by_pid()) == {7}


def test_argv_keeps_empty_fields() -> None:
    argv = ("/opt/x/dataset-cache-server", "", "-1", "50070", "4", "1", "true", "0.8")
    host = fake_host({**process_files(7, argv=argv), **process_files(2, argv=())})
    assert host.processes.arguments(7) == argv
    assert host.processes.arguments(2) == (), "a kernel thread has none"
    assert host.processes.arguments(99) is None


@pytest.mark.parametrize(
    ("exe", "path"),
    [
        ("/opt/x/dataset-cache-server", "/opt/x/dataset-cache-server"),
        ("/opt/x/dataset-cache-server (deleted)", "/opt/x/dataset-cache-server"),
    ],
)
def test_a_program_that_was_replaced_under_it(exe: str, path: str) -> None:
    processes = fake_host(process_files(7, exe=exe)).processes
    assert processes.exe(7) == path
    assert processes.program(7) == "dataset-cache-server"


def test_a_program_by_its_arguments_where_exe_is_closed() -> None:
    files = {**process_files(7, argv=("/usr/bin/tool", "-x")), "/proc/7/exe": unreadable(errno.EACCES)}
    assert fake_host(files).processes.program(7) == "tool"
    files["/proc/7/cmdline"] = unreadable(errno.EACCES)
    assert fake_host(files).processes.program(7) is None


def test_what_may_not_be_read_is_none_and_not_empty() -> None:
    closed = {name: unreadable(errno.EACCES) for name in ("/proc/7/maps", "/proc/7/fd", "/proc/7/exe")}
    processes = fake_host({**process_files(7), **closed}).processes
    assert processes.segments(7) is None
    assert processes.open_files(7) is None
    assert processes.exe(7) is None
    assert processes.mappers(0) == []


def test_who_maps_a_segment() -> None:
    processes = fake_host({**process_files(7, maps=MAPS), **process_files(8)}).processes
    assert processes.mappers(0) == processes.mappers(32774) == [7]
    assert processes.mappers(1) == []
    assert processes.segments(8) == {}


def test_descriptors() -> None:
    files = process_files(
        7, descriptors={0: "/dev/null", 5: "socket:[123383]", 11: "/data/spill/x/IMG00000.LB"}
    )
    assert fake_host(files).processes.open_files(7) == [
        (0, "/dev/null"),
        (11, "/data/spill/x/IMG00000.LB"),
        (5, "socket:[123383]"),
    ]
    assert fake_host(files).processes.open_files(8) == [], "it is gone"


def test_ancestors_even_in_a_circle() -> None:
    files = {**process_files(1, parent=0), **process_files(5, parent=1), **process_files(9, parent=5)}
    assert list(fake_host(files).processes.ancestors(9)) == [9, 5, 1]
    circle = {**process_files(5, parent=9), **process_files(9, parent=5)}
    assert list(fake_host(circle).processes.ancestors(9)) == [9, 5]
    assert list(fake_host(circle).processes.ancestors(77)) == []


def test_whose_proc_it_is() -> None:
    assert fake_host().processes.is_own_namespace()
    assert fake_host({"/proc/self": link(str(OUR_PID))}).processes.is_own_namespace()
    assert not Processes(MemoryDisk({})).is_own_namespace(), "who cannot see it is not told that it is"
    assert not fake_host({"/proc/self": link("4711")}).processes.is_own_namespace()
    assert fake_host({"/proc/self": link("4711")}).processes.self_pid == 4711


def test_without_a_proc_nothing_can_be_told() -> None:
    with pytest.raises(CannotTell, match="/proc"):
        Processes(MemoryDisk({})).by_pid()


def test_a_real_process(sleeper: psutil.Process) -> None:
    processes = Processes(LocalDisk(), ticks_per_second(), pid_exists)
    found = processes.read_now(sleeper.pid)
    assert found is not None
    assert (found.parent, found.uid, found.has_exited) == (os.getpid(), os.getuid(), False)
    assert abs(psutil.boot_time() + found.started / processes.ticks - sleeper.create_time()) < 2
    until(lambda: processes.exe(sleeper.pid) == os.path.realpath(sleeper.exe()))
    assert processes.program(sleeper.pid) == os.path.basename(sleeper.exe())
    assert processes.by_pid()[os.getpid()].pid == os.getpid()
    assert next(processes.ancestors(sleeper.pid)) == sleeper.pid
    assert os.getpid() in processes.ancestors(sleeper.pid)
    assert processes.is_own_namespace()
    assert processes.self_pid == os.getpid()


def test_the_look_is_kept_and_now_is_now(sleeper: psutil.Process) -> None:
    processes = Processes(LocalDisk(), ticks_per_second(), pid_exists)
    assert sleeper.pid in processes.by_pid()
    sleeper.kill()
    until(lambda: getattr(processes.read_now(sleeper.pid), "has_exited", False) is True)
    sleeper.wait(5)
    assert processes.read_now(sleeper.pid) is None
    assert sleeper.pid in processes.by_pid()
    assert not processes.is_hidden(sleeper.pid)


def test_a_hidden_process_is_alive(sleeper: psutil.Process) -> None:
    processes = Processes(MemoryDisk({"/proc": link("/nowhere")}), 100, pid_exists)
    assert processes.read_now(sleeper.pid) is None
    assert processes.is_hidden(sleeper.pid)
    assert pid_exists(1), "of another user or not"


def test_a_real_process_with_an_odd_name_and_odd_arguments(tmp_path: Path) -> None:
    program = tmp_path / ") Z 1 (x y"
    program.symlink_to(sys.executable)
    code = "import time; print('up', flush=True); time.sleep(1000)"
    argv = [str(program), "-S", "-c", code, "", "caf\udce9", ""]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            processes = Processes(LocalDisk(), ticks_per_second())
            found = processes.read_now(child.pid)
            assert found is not None
            assert (found.name, found.has_exited, found.parent) == (") Z 1 (x y", False, os.getpid())
            assert processes.arguments(child.pid) == tuple(argv)
            opened = processes.open_files(child.pid)
            assert opened is not None
            assert any(number == 1 and target.startswith("pipe:[") for number, target in opened)
        finally:
            child.send_signal(signal.SIGKILL)


def test_a_real_segment_is_seen_by_its_mapper() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    libc.shmdt.argtypes = [ctypes.c_void_p]
    shmid = libc.shmget(0, 4096, 0o1600)
    address = libc.shmat(shmid, None, 0)
    libc.shmctl(shmid, 0, None)  # it goes with us
    try:
        processes = Processes(LocalDisk(), ticks_per_second())
        assert processes.segments(os.getpid()) == {shmid: 0}
        assert processes.mappers(shmid) == [os.getpid()]
    finally:
        libc.shmdt(address)


def test_a_descriptor_that_cannot_be_read_is_not_nothing() -> None:
    files = process_files(7, descriptors={0: "/dev/null"})
    readable = Processes(MemoryDisk(files))
    assert readable.open_files(7) == [(0, "/dev/null")]
    assert Processes(MemoryDisk({**files, "/proc/7/fd/1": unreadable()})).open_files(7) is None
    closed = {**files, "/proc/7/fd/1": unreadable(errno.ENOENT)}
    assert Processes(MemoryDisk(closed)).open_files(7) == [(0, "/dev/null")]


def test_a_variable_of_a_process() -> None:
    files = {**process_files(7), "/proc/7/environ": b"A=1\0SLURM_JOB_ID=42\0B=\xff\0"}
    processes = Processes(MemoryDisk(files))
    assert [processes.variable(7, name) for name in ("A", "SLURM_JOB_ID", "B", "SLURM", "C")] == [
        "1", "42", "\udcff", None, None,
    ]  # fmt: skip
    assert processes.variable(8, "A") is None


def test_what_all_have_open_is_read_once() -> None:
    files = {
        **process_files(7, descriptors={3: "/dev/null"}),
        **process_files(8),
        **process_files(9, state="Z"),
    }
    files["/proc/8/fd"] = unreadable()
    disk = MemoryDisk(files)
    processes = Processes(disk)
    assert processes.open_files_by_pid() == {7: [(3, "/dev/null")], 8: None}
    disk.put("/proc/7/fd/4", link("/dev/zero"))
    assert processes.open_files_by_pid()[7] == [(3, "/dev/null")]


def test_what_the_threads_of_a_real_process_keep_whose_main_thread_ended(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(bytes(4096))
    with headless(path) as pid:
        processes = Processes(LocalDisk(), ticks_per_second())
        found = processes.read_now(pid)
        assert found is not None and (found.state, found.threads, found.has_exited) == ("Z", 2, False)
        assert not Path(f"/proc/{pid}/maps").read_bytes(), "the process itself shows nothing"
        assert str(path).encode() in (processes.read_maps(pid) or b"")
        opened = processes.open_files(pid)
        assert opened is not None and str(path) in [target for _number, target in opened]
        assert processes.open_files_by_pid()[pid] == opened
        assert processes.segments(pid) == {}


def test_a_main_thread_that_ended_and_threads_that_cannot_be_read() -> None:
    files = {**process_files(7), "/proc/7/stat": STAT.replace(" S ", " Z ").replace(" 20 0 47 ", " 20 0 2 ")}
    processes = Processes(MemoryDisk(files))
    assert processes.by_pid()[7].threads == 2
    assert [processes.read_maps(7), processes.open_files(7), processes.segments(7)] == [None] * 3
    files["/proc/7/task/8/maps"] = MAPS
    files["/proc/7/task/8/fd/3"] = link("/dev/null")
    processes = Processes(MemoryDisk(files))
    assert (processes.read_maps(7), processes.open_files(7)) == (MAPS.encode(), [(3, "/dev/null")])
    files["/proc/7/task/9/fd"] = unreadable()
    assert Processes(MemoryDisk(files)).open_files(7) is None


BUSY = """
import mmap, sys, threading, time
memory = mmap.mmap(-1, 200 << 20)
memory.write(bytes(200 << 20))
for number in range(8):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("ready", flush=True)
time.sleep(600)
"""


def test_a_real_process_that_is_just_ending_is_not_one_that_hides_itself() -> None:
    """For milliseconds it is no zombie yet, and its maps, descriptors and control groups show nothing."""
    child = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"ready\n"
    child.kill()
    looks = 0
    while (
        looks < 5000 and not (now := Processes(LocalDisk()).read_now(child.pid) or pytest.fail()).has_exited
    ):
        processes = Processes(LocalDisk())
        unseen = processes.read_maps(child.pid) is None or processes.open_files(child.pid) is None
        assert not (unseen and now.is_exiting and processes.still_runs(child.pid))
        looks += 1
    child.wait()
    child.stdout.close()
    assert looks


def test_what_hangs_at_its_end_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("npudoctor.host.process.processes.time.sleep", slept.append)
    exiting = STAT.replace(" 4194624 ", " 4194628 ").replace(" S ", " D ")
    files = {"/proc/7/stat": exiting, "/proc/8/stat": exiting.replace(" D ", " Z "), **process_files(9)}
    files.update({f"/proc/8/task/{task}/stat": exiting for task in (8, 81, 82)})
    processes = Processes(MemoryDisk(files))
    assert processes.still_runs(9) and slept == [], "not ending"
    assert processes.still_runs(7) and sum(slept) == pytest.approx(1, abs=0.03)
    assert processes.still_runs(7) and processes.still_runs(8) and sum(slept) == pytest.approx(1, abs=0.03)
    files["/proc/8/task/82/stat"] = STAT
    slept.clear()
    assert Processes(MemoryDisk(files)).still_runs(8) and slept == [], "a thread of it lives on"


def test_maps_that_are_longer_than_is_read_are_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(MemoryDisk(process_files(7, maps=MAPS)))
    monkeypatch.setattr("npudoctor.host.process.processes.MAPS_LIMIT", len(MAPS) + 1)
    assert processes.read_maps(7) == MAPS.encode()
    monkeypatch.setattr("npudoctor.host.process.processes.MAPS_LIMIT", len(MAPS))
    assert [processes.read_maps(7), processes.segments(7)] == [None] * 2
