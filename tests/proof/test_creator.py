"""Whether a process is dead: gone, a zombie, or its pid is another's; all else is not dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support import ipc
from tests.support.machine import Machine
from tests.support.others import forked, in_pid_namespace, with_hidden_processes

from npudoctor.host import Host
from npudoctor.proof.creator import CLOCK_SLACK, Life, creator_life
from npudoctor.testing import fake_host, process_files

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
SOMEBODY = 61234


def life(pid: int, since: float) -> Life:
    """What is known of a process of this machine."""
    return creator_life(Host(), pid, since).life


def ended_child() -> int:
    """A pid that was a process's a moment ago."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def test_one_that_lives() -> None:
    assert life(os.getpid(), time.time()) is Life.ALIVE


def test_one_that_is_gone() -> None:
    assert life(ended_child(), time.time()) is Life.DEAD


def test_a_zombie_is_dead() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert life(pid, time.time()) is Life.DEAD
    os.waitpid(pid, 0)


def test_a_stopped_one_lives(machine: Machine) -> None:
    server = machine.server()
    server.signal(signal.SIGSTOP)
    assert life(server.pid, time.time()) is Life.ALIVE


@pytest.mark.parametrize("pid", [0, -1, (1 << 22) + 1, 1 << 31, 1 << 63, 10**30])
def test_what_is_no_pid_is_unknown(pid: int) -> None:
    assert life(pid, time.time()) is Life.UNKNOWN


def test_a_pid_whose_process_began_later() -> None:
    long_ago = time.time() - 3600
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as later:
        assert life(later.pid, long_ago) is Life.DEAD
        assert life(later.pid, time.time()) is Life.ALIVE
        later.communicate(b"\n")


@pytest.mark.needs_root
def test_a_pid_that_the_kernel_gave_again(machine: Machine) -> None:
    """Real all the way: the server is dead, and a later process has its pid."""
    server = machine.dead_server()
    began = ipc.rows()[server.shmid]["ctime"]
    assert life(server.pid, began) is Life.DEAD
    time.sleep(max(0.0, began + 1 + CLOCK_SLACK - time.time()))
    again = process_with_pid(server.pid)
    try:
        assert life(server.pid, began) is Life.DEAD
        assert machine.codes() == ["orphan-segment", "orphan-socket"]
        assert machine.fix().exit_code == 0
        os.kill(again, 0)
    finally:
        os.kill(again, signal.SIGKILL)
        os.waitpid(again, 0)


def process_with_pid(wanted: int) -> int:
    """A process of this very pid."""
    for _attempt in range(200):
        LAST_PID.write_text(str(wanted - 1))
        pid = os.fork()
        if pid == 0:
            signal.pause()
        if pid == wanted:
            return pid
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    raise AssertionError(f"the kernel does not give out {wanted}")


def test_a_reused_pid_of_a_cache_server_is_in_doubt(machine: Machine) -> None:
    """The clock may have been set since: then the server that seems to have begun later is the creator."""
    assert life(machine.server().pid, time.time() - 3600) is Life.UNKNOWN


def test_the_start_of_a_process_is_in_the_boot_clock() -> None:
    host = fake_host(process_files(700, started=500 * 100))
    boot = host.system.boot_time()
    assert creator_life(host, 700, boot + 490).life is Life.DEAD
    assert creator_life(host, 700, boot + 499).life is Life.ALIVE
    assert creator_life(host, 700, boot + 510).life is Life.ALIVE


@pytest.mark.needs_root
@pytest.mark.parametrize("level", [1, 2])
def test_a_hidden_process_lives(level: int) -> None:
    ours = os.getpid()
    assert with_hidden_processes(level, SOMEBODY, lambda: life(ours, time.time())) is Life.ALIVE


@pytest.mark.needs_root
def test_pids_of_another_namespace_say_nothing() -> None:
    """/proc is still the outer one: whatever it shows under a number is not what we mean by it."""

    def inside() -> Life:
        ipc.unshare("pid")
        return forked(lambda: life(ended_child(), time.time()))

    assert forked(inside) is Life.UNKNOWN
    assert in_pid_namespace(lambda: life(os.getpid(), time.time())) is Life.ALIVE
