"""Processes, threads and descriptors, asked for under limits, in control groups and namespaces."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.trial.refusing import refused_calls, refusing
from tests.trial.starting import ALONE, refusals, tried

from npudoctor.trial.trials import PARTS, Trial

pytestmark = pytest.mark.whole
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
# A user whom no process of a machine has: what is counted is the trial's alone.
USER = ("setpriv", f"--reuid={(1 << 20) + os.getpid()}", "--regid=65534", "--clear-groups")
GROUPS = Path("/sys/fs/cgroup/pids")


def processes(**words: object) -> Trial:
    questions = {"ranks": 2, "threads": 64, "descriptors": 256, "groups": [], **words}
    return tried("processes", **questions)  # type: ignore[arg-type]


def test_without_limits_all_is_given() -> None:
    trial = processes()
    assert refusals(trial) == {} and (trial.hung, trial.died) == (None, None)
    assert trial.facts()["started"] == 2
    least = {attempt.what: attempt.facts["least"] for attempt in trial.attempts if "least" in attempt.facts}
    assert least == {"descriptors": 256, "threads": 64}
    assert {"pipe2", "epoll_create1", "eventfd2", "pidfd", "sched_getaffinity"} <= {
        attempt.what for attempt in trial.attempts
    }


def test_a_filter_that_refuses_sessions() -> None:
    """In which launchers start each rank."""
    assert refusals(processes(before=refused_calls(refusing("setsid", errno.EPERM)))) == {
        "setsid": errno.EPERM
    }


def test_descriptors_are_refused_by_the_limit() -> None:
    trial = processes(limits={resource.RLIMIT_NOFILE: 100})
    assert refusals(trial) == {"descriptors": errno.EMFILE}
    (opened,) = (attempt.facts["least"] for attempt in trial.attempts if attempt.what == "descriptors")
    assert 80 < opened < 100
    assert refusals(processes(limits={resource.RLIMIT_NOFILE: 300})) == {}


@pytest.mark.needs_root
@pytest.mark.parametrize(("most", "refused"), [(2, "processes"), (60, "threads"), (140, "")])
def test_the_limit_of_the_user(most: int, refused: str) -> None:
    trial = processes(limits={resource.RLIMIT_NPROC: most}, before=USER)
    assert refusals(trial) == ({refused: errno.EAGAIN} if refused else {})
    if refused:
        # All but those that had ended when they were counted.
        assert most - 3 <= trial.facts()["own"] <= most


def test_no_room_for_stacks_is_no_limit_of_their_number() -> None:
    trial = processes(limits={resource.RLIMIT_AS: 300 << 20})
    assert refusals(trial) == {"threads": errno.ENOMEM}
    assert refusals(processes(limits={resource.RLIMIT_AS: 2 << 30})) == {}
    huge = processes(limits={resource.RLIMIT_STACK: 1 << 39})
    assert refusals(huge) == {"threads": errno.ENOMEM}


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group for processes of its own."""
    folder = GROUPS / f"npudoctor-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group of processes can be made here: {error}")
    yield folder
    for _wait in range(100):
        with suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.02)


@pytest.mark.needs_root
@pytest.mark.parametrize(("most", "refused"), [(2, "processes"), (50, "threads"), (140, "")])
def test_the_control_group_refuses(group: Path, most: int, refused: str) -> None:
    (group / "pids.max").write_text(str(most))
    inside = ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")
    trial = processes(before=inside, groups=[str(group)])
    assert refusals(trial) == ({refused: errno.EAGAIN} if refused else {})
    if refused:
        assert trial.facts()["groups"] == [[str(group), most, most]]


@pytest.mark.needs_root
def test_the_kernel_has_no_number_left() -> None:
    """A namespace of pids has its own largest one, since Linux 6.14."""
    inside = ("unshare", "--pid", "--fork", "--mount-proc", "sh", "-c")
    few = (*inside, 'echo 350 > /proc/sys/kernel/pid_max && exec "$@"', "sh")
    before = Path("/proc/sys/kernel/pid_max").read_text()
    if subprocess.run([*few, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this kernel has one pid_max for all")
    if Path("/proc/sys/kernel/pid_max").read_text() != before:
        Path("/proc/sys/kernel/pid_max").write_text(before)
        pytest.skip("this kernel has one pid_max for all")
    trial = processes(before=few, ranks=8)
    # With whatever else runs here, not even the processes may fit.
    assert set(refusals(trial).items()) <= {("threads", errno.EAGAIN), ("processes", errno.EAGAIN)}
    assert refusals(trial) and trial.facts()["seen"] > 40


def source(part: str) -> str:
    """The whole script as it is started."""
    return "".join(
        line
        for name in ("attempts", part)
        for line in Path(PARTS, f"{name}.py").read_text().splitlines(keepends=True)
        if not line.startswith("from npudoctor.")
    )


def test_nothing_outlives_a_kill() -> None:
    """Whenever the child is killed, its ranks end at once: by the signal that they asked for, and because
    the gate is closed."""
    questions = {"ranks": 4, "threads": 16, "descriptors": 64, "groups": [], **ALONE}
    mark = f"npudoctor-kill-{os.getpid()}"
    argv = [sys.executable, "-c", source("processes"), json.dumps({**questions, "mark": mark})]
    moments = random.Random(25)  # noqa: S311
    for _round in range(20):
        child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True)
        time.sleep(moments.uniform(0.0, 0.12))
        child.send_signal(signal.SIGKILL)
        child.wait()
    for _wait in range(100):
        if not alive(mark):
            break
        time.sleep(0.01)
    assert alive(mark) == []


def test_a_rank_that_is_killed_holds_up_nobody() -> None:
    killed = "import os; fork = os.fork; os.fork = lambda: fork() or os.kill(os.getpid(), 9)\n"
    questions = {"ranks": 3, "threads": 4, "descriptors": 4, "groups": [], **ALONE}
    argv = [sys.executable, "-c", killed + source("processes"), json.dumps(questions)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=10)
    words = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["why"] for row in words if row.get("what") == "ranks"] == ["3 of 3 processes ended early"]
    assert words[-1] == {"end": True}


def alive(mark: str) -> list[str]:
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if mark.encode() in line.read_bytes() and line.parent.name != str(os.getpid()):
                found.append(line.parent.name)
    return found


def test_without_ctypes_python_starts_the_threads(tmp_path: Path) -> None:
    """A Python that was built without libffi."""
    hidden = "import sys; sys.modules['_ctypes'] = None\n"
    questions = {"ranks": 2, "threads": 64, "descriptors": 256, "groups": [], **ALONE}
    argv = [sys.executable, "-c", hidden + source("processes"), json.dumps(questions)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=tmp_path)
    words = [json.loads(line) for line in done.stdout.splitlines()]
    assert words[-1] == {"end": True} and not [row for row in words if row.get("why")]
    assert [row["facts"]["least"] for row in words if row.get("what") == "threads"] == [64]
