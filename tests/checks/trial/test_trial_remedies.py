"""What the checks of processes and of shared memory tell to type, typed on the machine that is ill."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.trial.starting import tried

from npudoctor import Finding
from npudoctor.checking.check import Check
from npudoctor.checks.trial.trial_processes import trial_processes
from npudoctor.checks.trial.trial_shared_memory import trial_shared_memory
from npudoctor.core.mounts import MOUNTINFO
from npudoctor.testing import Content, Memory, ask, fake_host
from npudoctor.trial.trials import Trial

pytestmark = [pytest.mark.whole, pytest.mark.needs_root]
GIB = 1 << 30
SHM = "/dev/shm"
# A user whom no process of a machine has: what is counted is the trial's alone.
USER = ("setpriv", f"--reuid={(1 << 20) + os.getpid()}", "--regid=65534", "--clear-groups")
GROUP = Path(f"/sys/fs/cgroup/pids/npudoctor-remedy-{os.getpid()}")
MOUNT = f"mount -t tmpfs -o mode=1777,size=256m tmpfs {SHM}"
SETTINGS = {"kernel.shmmax": "0", "kernel.shmall": "1", "kernel.pid_max": "350"}


def started(part: str, lines: list[str], **questions: object) -> Trial:
    """A part as an ordinary user, in namespaces in which root has typed these lines."""
    spaces = ("unshare", "--mount", "--ipc", "--pid", "--fork", "--mount-proc")
    before = (*spaces, "bash", "-ec", "; ".join((*lines, 'exec "$@"')), "bash", *USER)
    return tried(part, before=before, python="/usr/bin/python3", **questions)  # type: ignore[arg-type]


def judged(check: Check, part: str, trial: Trial) -> tuple[Finding, ...]:
    """What is said of it, on a machine of which the settings are known."""
    files: dict[str, Content] = {MOUNTINFO: f"25 1 0:24 / {SHM} rw - tmpfs tmpfs rw\n"}
    files.update({f"/proc/sys/{name.replace('.', '/')}": value for name, value in SETTINGS.items()})
    memory = Memory(8 * GIB, 8 * GIB)
    host = fake_host(files, euid=1000, user="li", memory=memory, trials={part: trial})
    return ask(check, host).findings


def heal(check: Check, part: str, broken: list[str], **questions: object) -> tuple[str, ...]:
    """The codes; each is told with lines, and with them typed none is told any more."""
    findings = judged(check, part, started(part, broken, **questions))
    assert findings and all(finding.fix and finding.fix.commands for finding in findings)
    lines = [line for finding in findings if finding.fix for line in finding.fix.commands]
    assert judged(check, part, started(part, broken + lines, **questions)) == ()
    return tuple(finding.code.partition(".")[2] for finding in findings)


@pytest.mark.parametrize(
    ("code", "broken"),
    [
        ("no-room", ["mount -t tmpfs -o mode=1777,size=64k tmpfs /dev/shm"]),
        ("no-room", ["mount -t tmpfs -o mode=1777,size=64m tmpfs /dev/shm", "echo x >/dev/shm/other"]),
        ("no-room", ["mount -t tmpfs -o mode=1777,nr_inodes=1 tmpfs /dev/shm"]),
        ("no-room", [MOUNT, "ulimit -Sf 1000"]),
        ("no-room", [MOUNT, "echo 0 >/proc/sys/kernel/shmmax"]),
        ("no-room", [MOUNT, "echo 1 >/proc/sys/kernel/shmall"]),
        ("refused", [MOUNT, "chmod 755 /dev/shm"]),
        ("refused", [MOUNT, "mount -o remount,ro /dev/shm"]),
        ("refused", ["mount -t tmpfs none /dev"]),
    ],
)  # fmt: skip
def test_shared_memory(code: str, broken: list[str]) -> None:
    assert heal(trial_shared_memory, "shared_memory", broken, large=64 << 20) == (code,)


@pytest.fixture
def group() -> Iterator[str]:
    """A control group that is entered by the shell of a trial."""
    try:
        GROUP.mkdir()
    except OSError as error:
        pytest.skip(f"no control group of processes can be made here: {error}")
    yield str(GROUP)
    GROUP.rmdir()


QUESTIONS = {"ranks": 1, "threads": 64, "descriptors": 256}


@pytest.mark.parametrize(
    ("code", "broken"),
    [
        ("no-processes", "ulimit -Su 1"),
        ("no-threads", "ulimit -Su 40"),
        ("no-threads", "ulimit -Sv 300000"),
        ("no-threads", "ulimit -Ss 500000000"),
        ("no-descriptors", "ulimit -Sn 50"),
        ("cpu-time", "ulimit -St 100"),
    ],
)
def test_processes(code: str, broken: str) -> None:
    assert heal(trial_processes, "processes", [broken], groups=[], **QUESTIONS) == (code,)


def test_numbers_of_processes() -> None:
    """A namespace of pids has its own largest one, since Linux 6.14."""
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 14):
        pytest.skip("this kernel has one pid_max for all")
    broken = ["echo 350 >/proc/sys/kernel/pid_max"]
    questions = {**QUESTIONS, "ranks": 8, "groups": []}
    # With whatever else runs here, not even the processes may fit.
    (code,) = heal(trial_processes, "processes", broken, **questions)
    assert code in ("no-threads", "no-processes")


def test_control_groups(group: str) -> None:
    broken = [f"echo 30 >{group}/pids.max", f"echo $$ >{group}/cgroup.procs"]
    assert heal(trial_processes, "processes", broken, groups=[group], **QUESTIONS) == ("no-threads",)
