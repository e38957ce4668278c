"""System V IPC: the tables as kernels print them, and the same objects asked of the kernel by their id."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import time
import traceback
from collections.abc import Callable
from dataclasses import replace

import pytest

from npudoctor.host import CannotTell
from npudoctor.host.fs.files import LocalDisk
from npudoctor.host.process.sysvipc import (
    IpcObject,
    Segment,
    SysVIPC,
    parse_queues,
    parse_segments,
    parse_semaphores,
)
from npudoctor.testing import Content, MemoryDisk, unreadable

SHM = (
    "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid"
    "      atime      dtime      ctime                   rss                  swap\n"
)
LIVE = (
    "1627447810          0   600            4294967296 24117 24117      1     0     0     0     0"
    " 1795201010          0 1795201010                     0                     0\n"
)
# A segment removed under its server: no key any more, the mark of destruction in the mode.
REMOVED = (
    "         0          6  1600            1073741824  3120  3120      1     0     0     0     0"
    " 1795201500          0 1795201500                     0                     0\n"
)
# Seen from a pid namespace without its creator.
INNER = (
    "1627447901      32776   666            1073741824     0     0      0  1000  1000  1000  1000"
    " 1795202000 1795202005 1795202000                     0                     0\n"
)
NEGATIVE = (
    "-587202559         12   640                  4096   801   802      3     5     6     7     8"
    "          0          0 1795202000                  4096                     0\n"
)


def segment(text: str) -> Segment:
    (found,) = parse_segments(SHM + text)
    return found


def test_a_living_segment_and_shmid_0() -> None:
    assert segment(LIVE) == Segment(
        key=0x6100E202, shmid=0, mode=0o600, size=1 << 32, cpid=24117, lpid=24117, nattch=1, uid=0, gid=0,
        cuid=0, cgid=0, atime=1795201010, dtime=0, ctime=1795201010,
    )  # fmt: skip


def test_one_that_is_marked_for_destruction() -> None:
    found = segment(REMOVED)
    assert (found.key, found.permissions, found.is_destroyed) == (0, 0o600, True)
    assert not segment(LIVE).is_destroyed


def test_a_creator_that_is_not_seen() -> None:
    found = segment(INNER)
    assert (found.cpid, found.permissions, found.cuid) == (0, 0o666, 1000)


def test_keys_are_unsigned_and_owners_are_told_apart() -> None:
    found = segment(NEGATIVE)
    assert found.key == 0xDD000001
    assert (found.uid, found.gid, found.cuid, found.cgid) == (5, 6, 7, 8)


def test_several_and_none() -> None:
    assert [found.shmid for found in parse_segments(SHM + LIVE + REMOVED + INNER + NEGATIVE)] == [
        0,
        6,
        32776,
        12,
    ]
    assert parse_segments(SHM) == []
    assert parse_segments("") == []


def test_other_kernels_have_other_columns() -> None:
    header, row = (" ".join(text.split()[:14]) for text in (SHM, LIVE))
    assert parse_segments(f"{header}\n{row}\n") == [segment(LIVE)], "an old kernel without rss and swap"
    assert parse_segments(f"{header} new\n{row} 7\n") == [segment(LIVE)]


@pytest.mark.parametrize("text", ["key shmid\n1 2\n", SHM + "1 2 3\n", SHM + LIVE.replace("600", "9x9")])
def test_an_unknown_layout_is_no_empty_table(text: str) -> None:
    with pytest.raises(CannotTell, match="unknown layout"):
        SysVIPC(MemoryDisk({"/proc/sysvipc/shm": text})).segments()


@pytest.mark.parametrize("content", [unreadable(errno.EACCES), unreadable(errno.ENOENT)])
def test_a_closed_table_is_no_empty_table(content: Content) -> None:
    ipc = SysVIPC(MemoryDisk({f"/proc/sysvipc/{name}": content for name in ("shm", "msg", "sem")}))
    for ask in (ipc.segments, ipc.read_segments, ipc.queues_and_semaphores):
        with pytest.raises(CannotTell, match="cannot be read") as told:
            ask()
        # With subset=pid there is no table: whether a job can share memory is tried.
        absent = told.value.__cause__.errno == errno.ENOENT  # type: ignore[union-attr]
        assert told.value.tried_by == (("trial-shared-memory",) if absent else ())


def test_queues_and_semaphores() -> None:
    queues = (
        "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid"
        "      stime      rtime      ctime\n"
        "     49243         26   600          96          2   801   802  1001  1001  1002  1002"
        " 1795201001 1795201002 1795201000\n"
    )
    semaphores = (
        "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n"
        "  -1054321          3   600         17  1001  1001  1002  1002          0 1795201000\n"
    )
    assert parse_queues(queues) == [IpcObject("msg", 0xC05B, 26, 0o600, 96, 1001, 1002, 1795201000)]
    (found,) = parse_semaphores(semaphores)
    assert (found.kind, found.key, found.amount, found.uid) == ("sem", 0xFFEFE98F, 17, 1001)


def test_the_same_object() -> None:
    found = segment(LIVE)
    assert found.is_unchanged_in(replace(found, atime=5, dtime=6, lpid=7))
    for change in (
        {"cpid": 1},
        {"ctime": 1},
        {"nattch": 0},
        {"size": 1},
        {"key": 1},
        {"cuid": 1},
        {"shmid": 1},
    ):
        assert not found.is_unchanged_in(replace(found, **change))


CLONE_NEWIPC, IPC_CREAT, IPC_RMID, IPC_SET = 0x08000000, 0o1000, 0, 1
libc = ctypes.CDLL(None, use_errno=True)
libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
libc.shmat.restype = ctypes.c_void_p


def in_its_own_namespace(scene: Callable[[], None]) -> None:
    """Run in a child whose System V IPC is empty; its failure is this test's."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if libc.unshare(CLONE_NEWIPC):
                raise OSError(ctypes.get_errno(), "unshare")
            scene()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


def make(key: int, size: int, mode: int = 0o600) -> int:
    shmid = int(libc.shmget(key, size, IPC_CREAT | mode))
    assert shmid >= 0, os.strerror(ctypes.get_errno())
    return shmid


def row(ipc: SysVIPC, shmid: int) -> Segment:
    (found,) = (found for found in ipc.read_segments() if found.shmid == shmid)
    return found


@pytest.mark.needs_root
def test_the_kernel_and_its_table_agree() -> None:
    def scene() -> None:
        ipc = SysVIPC(LocalDisk())
        assert ipc.read_segments() == []
        for key, size, mode in ((0x61001234, 1 << 30, 0o600), (-5, 4096, 0o666), (0, 1, 0o604)):
            shmid = make(key, size, mode)
            found = row(ipc, shmid)
            assert found == ipc.stat_segment(shmid)
            assert (found.key, found.size, found.permissions) == (key & 0xFFFFFFFF, size, mode)
            assert (found.cpid, found.nattch, found.atime) == (os.getpid(), 0, 0)
            assert abs(found.ctime - time.time()) < 5

    in_its_own_namespace(scene)


@pytest.mark.needs_root
def test_attaching_destroying_and_vanishing() -> None:
    def scene() -> None:
        ipc = SysVIPC(LocalDisk())
        shmid = make(0x61005678, 1 << 20)
        address = libc.shmat(shmid, None, 0)
        attached = ipc.stat_segment(shmid)
        assert attached == row(ipc, shmid)
        assert attached is not None
        assert attached.nattch == 1
        libc.shmctl(shmid, IPC_RMID, None)
        doomed = ipc.stat_segment(shmid)
        assert doomed == row(ipc, shmid)
        assert doomed is not None
        assert (doomed.is_destroyed, doomed.key, doomed.permissions) == (True, 0, 0o600)
        libc.shmdt(ctypes.c_void_p(address))
        assert ipc.stat_segment(shmid) is None
        assert ipc.stat_segment(shmid + 32768) is None, "an id of another sequence"
        assert ipc.read_segments() == []

    in_its_own_namespace(scene)


@pytest.mark.needs_root
def test_others_may_read_the_table_and_not_look() -> None:
    def scene() -> None:
        shmid = make(0x61000001, 4096, 0o600)
        os.setgid(65534)
        os.setuid(65534)
        ipc = SysVIPC(LocalDisk())
        assert row(ipc, shmid).size == 4096
        with pytest.raises(PermissionError):
            ipc.stat_segment(shmid)

    in_its_own_namespace(scene)


@pytest.mark.needs_root
def test_segments_are_read_once_unless_asked_now() -> None:
    def scene() -> None:
        ipc = SysVIPC(LocalDisk())
        assert ipc.segments() == []
        make(0x61000002, 4096)
        assert ipc.segments() == []
        assert len(ipc.read_segments()) == 1

    in_its_own_namespace(scene)


@pytest.mark.needs_root
def test_real_queues_and_semaphores(need: Callable[..., None]) -> None:
    need("ipcmk")

    def scene() -> None:
        subprocess.run(["ipcmk", "-Q", "-S", "3"], check=True, stdout=subprocess.DEVNULL)
        queue, semaphores = SysVIPC(LocalDisk()).queues_and_semaphores()
        assert (queue.kind, queue.amount, queue.uid) == ("msg", 0, 0)
        assert (semaphores.kind, semaphores.amount, semaphores.cuid) == ("sem", 3, 0)

    in_its_own_namespace(scene)
