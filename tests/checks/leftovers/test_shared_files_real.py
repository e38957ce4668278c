"""shared-memory with a real /dev/shm of our own: mapped, open, left; another user's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest

# Run in a mount and an IPC namespace of its own: fills /dev/shm; `ask` prints what is said of it. The machine
# may bear the mark of an image that it was made from; its namespaces are judged.
SCENE = """
import json, mmap, os, subprocess, sys, time
from npudoctor.checks.leftovers.shared_memory import shared_memory
from npudoctor.host import Host, Options
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.system import System
from npudoctor.testing import FakeClock, ask as asked

class Bare(System):
    def is_container(self):
        return False

def make(name, size=1 << 21, mode=0o600):
    path = "/dev/shm/" + name
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    os.fchmod(fd, mode)
    os.posix_fallocate(fd, 0, size)
    os.close(fd)
    return path

def dead():
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid

def mapper(path, *before):
    code = (
        "import mmap, os, sys\\n"
        "fd = os.open(sys.argv[1], os.O_RDWR); kept = mmap.mmap(fd, 0); os.close(fd)\\n"
        "print(os.getpid(), flush=True); sys.stdin.read()"
    )
    # Our own Python may lie where another user may not go.
    program = "/usr/bin/python3" if before and os.path.exists("/usr/bin/python3") else sys.executable
    child = subprocess.Popen([*before, program, "-c", code, path],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    return child

def end(child):
    child.stdin.close()
    child.wait(10)

def ask(hours=1.0, **options):
    files = Files(LocalDisk())
    host = Host(Options(expect="none", **options), clock=FakeClock(time.time() + hours * 3600),
                system=Bare(files.disk, files))
    told = asked(shared_memory, host)
    print(json.dumps({"status": told.status.value, "facts": told.facts, "reason": told.reason, "findings": [
        [one.code, one.severity.name, list(one.evidence)] for one in told.findings]}), flush=True)

sys.path.insert(0, {root!r})
from pathlib import Path
from tests.headless import headless
""".replace("{root!r}", repr(str(Path(__file__).parents[3])))


@pytest.fixture
def said(lack: Callable[[str], None]) -> Callable[[str], list[dict[str, Any]]]:
    """What the check said in a scene, each time that it asked."""
    if os.geteuid() != 0:
        lack("root, for a /dev/shm of one's own")
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        lack("in a pid namespace nothing is proven")

    def run(body: str) -> list[dict[str, Any]]:
        mount = 'mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec "$@"'
        own = ["unshare", "-m", "-i", "--propagation", "private", "sh", "-c", mount, "sh"]
        argv = [*own, sys.executable, "-c", SCENE + body]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def codes(answer: dict[str, Any]) -> list[str]:
    return [finding[0] for finding in answer["findings"]]


def test_an_empty_place(said: Callable[[str], list[dict[str, Any]]]) -> None:
    (told,) = said("ask()")
    assert (told["status"], told["findings"]) == ("ok", [])


def test_mapped_open_and_left(said: Callable[[str], list[dict[str, Any]]]) -> None:
    body = """
path = make("torch_%d_77_0" % dead())
child = mapper(path)
ask()
end(child)
kept = os.open(path, os.O_RDONLY)
other = subprocess.Popen(["sleep", "60"], pass_fds=[kept])
os.close(kept)
ask()
other.kill(); other.wait()
ask(); ask(hours=0.01); ask(only_user="nobody"); ask(only_job="7")
os.unlink(path)
ask()
"""
    mapped, opened, left, young, others, job, gone = said(body)
    assert codes(mapped) == codes(opened) == codes(young) == codes(others) == codes(gone) == []
    assert mapped["facts"]["file_bytes_in_use"] == opened["facts"]["file_bytes_in_use"] == 1 << 21
    assert codes(left) == ["shared-memory.left-over"] and left["findings"][0][1] == "INFO"
    assert left["facts"]["file_bytes_in_use"] == 0
    assert job["status"] == "skipped"


def test_pythons_own_shared_memory(said: Callable[[str], list[dict[str, Any]]]) -> None:
    body = """
from multiprocessing import shared_memory as memory, resource_tracker
block = memory.SharedMemory(create=True, size=1 << 22)
block.buf[:] = bytes(1 << 22)
child = mapper("/dev/shm/" + block.name)
ask()
block.close()
ask()
end(child)
ask()
block.unlink()
"""
    _ours, mapped, nobodys = said(body)
    # What only this very process maps is not looked for: npudoctor makes none.
    assert codes(mapped) == [], "another process maps it"
    assert codes(nobodys) == ["shared-memory.unproven"]
    assert "does not contain its creator's pid" in nobodys["findings"][0][2][0]


def test_a_process_of_another_pid_namespace_that_shares_the_place(
    said: Callable[[str], list[dict[str, Any]]],
) -> None:
    body = """
path = make("torch_%d_77_0" % dead())
outer = subprocess.Popen(["unshare", "-p", "-f", "--kill-child", "sleep", "60"])
time.sleep(0.5)
ask()
child = mapper(path, "unshare", "-p", "-f", "--kill-child")
ask()
end(child)
outer.kill(); outer.wait()
time.sleep(0.2)
ask()
"""
    shared, mapped, left = said(body)
    assert codes(shared) == ["shared-memory.unproven"]
    assert "another pid namespace" in shared["findings"][0][2][0]
    assert codes(mapped) == []
    assert codes(left) == ["shared-memory.left-over"]


def test_much_memory(said: Callable[[str], list[dict[str, Any]]]) -> None:
    body = """
path = make("paddle_%d_1_5" % dead())
os.truncate(path, 1 << 30)
ask()
os.unlink(path)
make("paddle_%d_1_5" % dead(), 1 << 30)
ask()
"""
    sparse, held = said(body)
    assert sparse["findings"][0][:2] == ["shared-memory.left-over", "INFO"], "it is large, and holds little"
    assert held["status"] == "problem" and held["findings"][0][:2] == ["shared-memory.left-over", "WARNING"]


def test_another_user_sees_what_he_may(said: Callable[[str], list[dict[str, Any]]]) -> None:
    """Asked as nobody: his own are judged, root's are not spoken of, those that root's mapped neither."""
    body = """
make("torch_%d_77_1" % dead(), 1 << 23)
ask()  # loads what he may not read
own = make("torch_%d_77_0" % dead())
os.chown(own, 65534, 65534)
pid = os.fork()
if pid == 0:
    os.setgid(65534); os.setuid(65534)
    ask()
    os._exit(0)
os.waitpid(pid, 0)
child = mapper(own, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
pid = os.fork()
if pid == 0:
    os.setgid(65534); os.setuid(65534)
    ask()
    os._exit(0)
os.waitpid(pid, 0)
end(child)
"""
    _root, alone, mapped = said(body)
    assert alone["status"] == "ok"
    assert codes(alone) == ["shared-memory.left-over"]
    assert alone["facts"]["file_bytes_unseen"] == 1 << 23
    assert codes(mapped) == []


@pytest.mark.parametrize("how", ["open", "mapped"])
def test_a_process_whose_main_thread_ended(said: Callable[[str], list[dict[str, Any]]], how: str) -> None:
    body = f"""
path = make("torch_%d_77_0" % dead())
with headless(Path(path), {how!r}):
    ask()
ask()
"""
    kept, left = said(body)
    assert codes(kept) == [] and kept["facts"]["file_bytes_in_use"] == 1 << 21
    assert codes(left) == ["shared-memory.left-over"]


def test_a_planted_folder(said: Callable[[str], list[dict[str, Any]]]) -> None:
    body = """
os.symlink("/usr/lib", "/dev/shm/hccl_sync")
os.symlink("/usr/lib/os-release", "/dev/shm/hccl_file")
ask()
os.unlink("/dev/shm/hccl_sync")
os.mkdir("/dev/shm/hccl_sync")
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm/hccl_sync"], check=True)
make("hccl_sync/elsewhere")
ask()
subprocess.run(["umount", "/dev/shm/hccl_sync"], check=True)
make("hccl_sync/here")
ask()
"""
    linked, mounted, real = said(body)
    assert [one["facts"].get("files", 0) for one in (linked, mounted, real)] == [0, 0, 1]
    assert codes(linked) == codes(mounted) == []
    assert codes(real) == ["shared-memory.unproven"]
