"""stale-processes with real processes: orphans, zombies, state D, tmux, control groups, namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable

import pytest
from tests.proof.test_stale import CLEAR, JOB, PLACE, in_private_mounts, machine

from npudoctor import Status
from npudoctor.checks.leftovers.stale_processes import stale_processes
from npudoctor.host import Host, Options
from npudoctor.host.clock import Clock
from npudoctor.testing import Asked, ask

from .stale_machine import pids, screen

# Says its pid and sleeps, under the name that a rank has.
SLEEPER = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
# Ends its first thread and lives on in another: a zombie that holds all that it held.
HEADLESS = """
import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print(os.getpid(), flush=True)
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
"""
# Waits in the kernel for a child that neither ends nor executes: clone(CLONE_VFORK | SIGCHLD).
STUCK = """
import ctypes, os, time
print(os.getpid(), flush=True)
if ctypes.CDLL(None).syscall({"x86_64": 56, "aarch64": 220}[os.uname().machine], 0x4011, 0, 0, 0, 0) == 0:
    time.sleep(60)
    os._exit(0)
"""
# Has a child that ended, and does not fetch it.
CARELESS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "pass"])
print(child.pid, flush=True)
time.sleep(60)
"""


@contextmanager
def running(code: str, *before: str, **options: Any) -> Iterator[tuple[int, int]]:
    """A Python of ours with this code, started by `before`: the pid that it says, and its own."""
    argv = [*before, sys.executable, "-c", code]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True, **options)
    assert child.stdout is not None
    try:
        yield int(child.stdout.readline()), child.pid
    finally:
        os.killpg(child.pid, 9)
        child.wait()
        child.stdout.close()


def judged(**options: Any) -> Asked:
    made = machine()
    return ask(stale_processes, Host(Options(expect="none", **options), system=made.system, clock=Hasty()))


class Hasty(Clock):
    """Waits less than it is told to."""

    def wait_until(self, steady: float) -> None:
        time.sleep(0.3)


def written(path: Path) -> int:
    """The number in a file, once it is there."""
    until = time.monotonic() + 10
    while time.monotonic() < until and not (path.exists() and path.read_text()):
        time.sleep(0.05)
    return int(path.read_text())


def named(pid: int, asked: Asked) -> list[str]:
    """The codes under which a process is named."""
    return [one.code for one in asked.findings if pid in pids(Asked(asked.status, (one,), {}), one.code)]


def test_a_real_zombie() -> None:
    with running(CARELESS) as (zombie, parent):
        time.sleep(0.5)
        asked = judged()
        assert named(zombie, asked) == ["stale-processes.zombie"]
        assert named(parent, asked) == []


def test_a_real_zombie_whose_threads_live() -> None:
    with running(HEADLESS) as (pid, _child):
        time.sleep(0.3)
        process = Host().processes.read_now(pid)
        assert (
            process is not None and process.state == "Z" and process.threads == 2 and not process.has_exited
        )
        asked = judged()
        assert named(pid, asked) == ["stale-processes.zombie"]
        assert any(
            "1 of its threads are still alive" in line for one in asked.findings for line in one.evidence
        )


def test_a_real_process_in_state_d() -> None:
    with running(STUCK) as (pid, _child):
        time.sleep(0.3)
        assert named(pid, judged()) == ["stale-processes.stuck"]
    assert named(pid, judged()) == []


def test_it_waits_only_when_there_is_something_to_look_at_again() -> None:
    began = time.monotonic()
    host = Host(Options(only_user="4000000000"))
    assert ask(stale_processes, host).codes == []
    assert time.monotonic() - began < 1.5


def test_orphans_under_nohup_and_setsid_are_quiet(tmp_path: Path) -> None:
    script = f"nohup setsid '{sys.executable}' -c '{SLEEPER}' > '{tmp_path}/pid' 2>/dev/null &"
    subprocess.run(["sh", "-c", script], check=True)
    pid = written(tmp_path / "pid")
    try:
        process = Host().processes.read_now(pid)
        assert process is not None and process.parent != os.getpid()
        assert named(pid, judged()) == []
    finally:
        os.kill(pid, 9)


@contextmanager
def in_group(pid: int, folder: Path, lack: Callable[[str], None]) -> Iterator[None]:
    """The process in the control group of a Slurm job of which nothing else was ever there."""
    where = {"mount": str(folder), "job": JOB.format(pid=pid), "pid": str(pid)}
    failure = in_private_mounts(PLACE.format(**where))
    try:
        if failure:
            lack(f"no control group of version 2 can be made: {failure}")
        yield
    finally:
        os.kill(pid, 9)
        time.sleep(0.2)
        in_private_mounts(CLEAR.format(**where))


def first_namespace(lack: Callable[[str], None]) -> None:
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        lack("in a pid namespace nothing is proven")


@pytest.mark.needs_root
def test_a_real_job_that_is_over(tmp_path: Path, lack: Callable[[str], None]) -> None:
    first_namespace(lack)
    child = subprocess.Popen(["sleep", "60"], user=65534, start_new_session=True)
    pid = child.pid
    with in_group(pid, tmp_path, lack):
        job = f"4294900{pid}"
        assert named(pid, judged()) == ["stale-processes.left-behind"]
        assert named(pid, judged(only_job=job)) == ["stale-processes.left-behind"]
        assert named(pid, judged(only_job="1")) == []
        assert named(pid, judged(only_user="65534")) == ["stale-processes.left-behind"]
        assert named(pid, judged(only_user="root")) == []
        step = subprocess.Popen(["bash", "-c", f"exec -a 'slurmstepd: [{job}.0]' sleep 60"])
        time.sleep(0.2)
        try:
            assert named(pid, judged()) == []
        finally:
            step.kill()
            step.wait()
    child.wait()


@pytest.mark.needs_root
def test_a_session_of_tmux_in_the_group_of_a_job_that_is_over(
    tmp_path: Path, lack: Callable[[str], None], need: Callable[..., None]
) -> None:
    need("tmux")
    first_namespace(lack)
    tmux = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null"]
    line = f"exec '{sys.executable}' -c '{SLEEPER}' > '{tmp_path}/pid'"
    environment = {**os.environ, "TERM": "xterm"}
    subprocess.run([*tmux, "new-session", "-d", "sh", "-c", line], check=True, env=environment)
    try:
        pid = written(tmp_path / "pid")
        assert named(pid, judged()) == []
        (tmp_path / "group").mkdir()
        with in_group(pid, tmp_path / "group", lack):
            assert named(pid, judged()) == []
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)


@pytest.mark.needs_root
def test_a_process_in_a_pid_namespace_is_quiet() -> None:
    with running(SLEEPER, "unshare", "-p", "-f", "--kill-child") as (inner, outer):
        assert inner == 1
        asked = judged()
        processes = Host().processes.by_pid()
        pid = next(pid for pid, process in processes.items() if process.parent == outer)
        assert named(pid, asked) == []


# Asks the check where it is; the argument is how the machine is put.
ASK = """
import json, sys
from npudoctor.checks.leftovers.stale_processes import stale_processes
from npudoctor.host import Host, Options
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.system import System
from npudoctor.testing import ask

class Bare(System):
    def is_container(self):
        return False

files = Files(LocalDisk())
asked = ask(stale_processes, Host(Options(expect="none"), system=Bare(files.disk, files)))
print(json.dumps({"status": asked.status.value, "reason": asked.reason, "advisory": asked.advisory,
    "findings": {one.code: list(one.evidence) for one in asked.findings}}))
"""


def elsewhere(script: str, *before: str) -> dict[str, Any]:
    """The answer of a child in namespaces of its own, after a shell script."""
    argv = [*before, "sh", "-c", f'{script}\nexec "$@"', "sh", sys.executable, "-c", ASK]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.needs_root
def test_inside_a_pid_namespace_nothing_is_proven() -> None:
    told = elsewhere("", "unshare", "-p", "-f", "-m", "--mount-proc")
    assert (told["status"], told["findings"]) == (Status.OK.value, {})


# A machine with two NPUs that are /dev/null by another name, and stand-ins for its tools.
PLACES = """
set -e
mkdir -p {tmp}/bin
cat > {tmp}/bin/npu-smi <<'END'
#!/bin/sh
cat <<'SCREEN'
{screen}SCREEN
END
cat > {tmp}/bin/scontrol <<'END'
#!/bin/sh
echo "slurm_load_jobs error: Invalid job id specified" >&2
exit 1
END
chmod 755 {tmp}/bin/*
mount --bind {tmp}/bin /usr/local/sbin
mount -t tmpfs tmpfs /dev
mknod -m 666 /dev/null c 1 3
mknod -m 666 /dev/davinci0 c 1 3
mknod -m 666 /dev/davinci1 c 1 3
SLURM_JOB_ID={job} sleep 50 > /dev/null 2>&1 &
started=$!
sleep 50 3< /dev/davinci0 > /dev/null 2>&1 &
started="$started $!"
timeout 50 sh -c 'while :; do :; done' 3< /dev/davinci1 > /dev/null 2>&1 &
trap "kill -9 $started; kill $!; wait" EXIT
"""


@pytest.mark.needs_root
@pytest.mark.parametrize(("rate", "idle"), [(0, True), (60, False)])
def test_real_holders_of_devices_and_a_job_that_slurm_forgot(
    rate: int, idle: bool, tmp_path: Path, lack: Callable[[str], None]
) -> None:
    first_namespace(lack)
    # Each with a job of its own: on a loaded machine what was killed lives on for a moment.
    job = str(4294900001 + rate)
    script = PLACES.format(tmp=tmp_path, screen=screen(rate, 0), job=job).replace("exec ", "")
    argv = ["unshare", "-m", "--propagation", "private", "sh", "-c", f'{script}\n"$@"', "sh"]
    done = subprocess.run(
        [*argv, sys.executable, "-c", ASK], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout.splitlines()[-1])["findings"]
    outlived = [line for line in findings["stale-processes.outlived-job"] if job in line]
    assert len(outlived) == 1 and "sleep 50" in outlived[0]
    held = findings.get("stale-processes.idle", [])
    assert [line.rpartition(" - ")[2] for line in held[:-1]] == (["/dev/davinci0"] if idle else []), held
