"""Shared memory, asked for on small, full, closed and missing /dev/shm, and by children that are killed."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.trial.starting import ALONE, default_acl, refusals, tried

from npudoctor.trial.trials import PARTS, Trial

pytestmark = pytest.mark.whole
MIB = 1 << 20
FOLDER = Path("/dev/shm")
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
# Of no machine that runs, and what a trial of it would have left.
DEAD = 4_194_305


def shared(**words: object) -> Trial:
    return tried("shared_memory", **{"large": 64 * MIB, **words})  # type: ignore[arg-type]


def on(*lines: str, user: tuple[str, ...] = ()) -> tuple[str, ...]:
    """On a machine of its own that was changed by these lines."""
    return ("unshare", "--mount", "--ipc", "sh", "-ec", "; ".join((*lines, 'exec "$@"')), "sh", *user)


def mount(options: str) -> str:
    return f"mount -t tmpfs -o mode=1777,{options} tmpfs {FOLDER}"


def test_all_is_given() -> None:
    trial = shared()
    assert refusals(trial) == {} and (trial.hung, trial.died) == (None, None)
    assert [attempt.what for attempt in trial.attempts] == [
        *(
            "limits",
            "module",
            "module",
            "module",
            "segment",
            "semaphore",
            "again",
            "socketpair",
            "listener",
            "sysv",
        )
    ]


def test_nothing_large_is_taken_where_that_was_said() -> None:
    trial = shared(large=0)
    assert refusals(trial) == {} and "small" in [attempt.what for attempt in trial.attempts]


NO_ROOM = errno.ENOSPC


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ((mount("size=256m"),), {}),
        ((mount("size=64m"),), {}),
        ((mount("size=63m"),), {"segment": NO_ROOM}),
        ((mount("size=64k"),), {"segment": NO_ROOM, "small": NO_ROOM}),
        ((mount("size=80m"), "head -c 20m /dev/zero >/dev/shm/full"), {"segment": NO_ROOM}),
        (
            (mount("size=4k"), "echo full >/dev/shm/full"),
            {"segment": NO_ROOM, "small": NO_ROOM, "semaphore": NO_ROOM},
        ),
        ((mount("nr_inodes=1"),), {"segment": NO_ROOM, "small": NO_ROOM, "semaphore": NO_ROOM}),
        ((mount("nr_inodes=3"),), {}),
        (
            (mount("size=256m"), "mount -o remount,ro /dev/shm"),
            {"segment": errno.EROFS, "small": errno.EROFS, "semaphore": errno.EROFS},
        ),
        (
            ("umount -l /dev/shm", "mount -t tmpfs none /dev"),
            {"segment": errno.ENOENT, "small": errno.ENOENT, "semaphore": errno.ENOENT},
        ),
        ((mount("size=256m"), "mount -o remount,noexec,nosuid,nodev /dev/shm"), {}),
    ],
)  # fmt: skip
def test_what_the_folder_gives(lines: tuple[str, ...], refused: dict[str, int]) -> None:
    assert refusals(shared(before=on(*lines))) == refused


@pytest.mark.needs_root
def test_the_folder_is_closed_to_this_user() -> None:
    closed = on(mount("size=256m"), "chmod 755 /dev/shm", user=NOBODY)
    trial = shared(before=closed, python="/usr/bin/python3")
    assert refusals(trial) == dict.fromkeys(("segment", "small", "semaphore"), errno.EACCES)
    assert trial.facts()["mode"] == 0o755
    assert refusals(shared(before=on(mount("size=256m"), user=NOBODY), python="/usr/bin/python3")) == {}


@pytest.mark.needs_root
@pytest.mark.parametrize(("owner", "refused"), [(4, {"again": errno.EACCES}), (6, {})])
def test_a_default_acl_that_takes_from_the_owner(owner: int, refused: dict[str, int]) -> None:
    machine = on(mount("size=256m"), default_acl(str(FOLDER), owner), user=NOBODY)
    assert refusals(shared(before=machine, python="/usr/bin/python3")) == refused


def test_a_mask_that_takes_from_the_owner() -> None:
    """Of root nothing is taken."""
    trial = shared(before=("sh", "-c", 'umask 0600; exec "$@"', "sh"))
    assert {attempt.facts.get("umask") for attempt in trial.attempts if attempt.what == "again"} == {0o600}


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("setting", "number"),
    [("shmmax=0", errno.EINVAL), ("shmall=10", errno.ENOSPC), ("shmmni=0", errno.ENOSPC), ("shmmni=1", 0)],
)
def test_settings_of_system_v(setting: str, number: int) -> None:
    name, _equal, value = setting.partition("=")
    trial = shared(before=on(f"echo {value} > /proc/sys/kernel/{name}"))
    assert refusals(trial) == ({"sysv": number} if number else {})


def test_limits_of_the_shell() -> None:
    files = shared(limits={resource.RLIMIT_FSIZE: 2 * MIB})
    assert refusals(files) == {"segment": errno.EFBIG}
    assert refusals(shared(limits={resource.RLIMIT_FSIZE: 64 * MIB})) == {}
    assert refusals(shared(limits={resource.RLIMIT_FSIZE: 4096}, large=0))["small"] == errno.EFBIG


@pytest.mark.parametrize("module", ["_posixshmem", "_multiprocessing", "mmap"])
def test_a_python_without(module: str) -> None:
    hidden = f"import sys; sys.modules[{module!r}] = None\n"
    argv = [sys.executable, "-c", hidden + source(), questions()]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    words = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["facts"]["module"] for row in words if row.get("why")] == [module]
    assert words[-1] == {"end": True}


def source() -> str:
    """The whole script as it is started."""
    return "".join(
        line
        for name in ("attempts", "shared_memory")
        for line in Path(PARTS, f"{name}.py").read_text().splitlines(keepends=True)
        if not line.startswith("from npudoctor.")
    )


def questions() -> str:
    return json.dumps({"large": 8 * MIB, **ALONE})


def left() -> tuple[list[str], list[str]]:
    """What of a trial lies in /dev/shm, and its System V segments."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    keys = [line.split()[0] for line in lines if int(line.split()[0]) >> 24 == 0x4E]
    return sorted(path.name for path in FOLDER.glob(".npudoctor-trial-*")), keys


def test_nothing_is_left_after_a_kill() -> None:
    """Between two calls a name may stay; then the next trial removes it."""
    moments = random.Random(25)  # noqa: S311
    argv = [sys.executable, "-c", source(), questions()]
    before = left()
    for _round in range(20):
        child = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        time.sleep(moments.uniform(0.0, 0.06))
        child.send_signal(signal.SIGKILL)
        child.wait()
    if left() != before:
        time.sleep(3.1)  # a segment that is younger may be a living trial's of another namespace
        assert refusals(shared()) == {}
    assert left() == before


def test_what_a_dead_trial_has_left_is_removed_and_nothing_else() -> None:
    maker = (
        "import ctypes, os; libc = ctypes.CDLL(None);"
        "print(libc.shmget(0x4E << 24 | os.getpid(), 1 << 20, 0o1600))"
    )
    made = subprocess.run([sys.executable, "-c", maker], capture_output=True, text=True, check=True)
    libc = ctypes.CDLL(None, use_errno=True)
    living = libc.shmget(0x4E << 24 | os.getpid(), MIB, 0o1600)
    dead, alive = (FOLDER / f".npudoctor-trial-{pid}-test" for pid in (DEAD, os.getpid()))
    other = FOLDER / f".npudoctor-trial-x{os.getpid()}"
    try:
        for path in (dead, alive, other):
            path.touch()
        time.sleep(3.1)  # a younger segment may be that of a living trial in another namespace
        assert refusals(shared(large=0)) == {}
        assert [path.exists() for path in (dead, alive, other)] == [False, True, True]
        assert left()[1] == [str(0x4E << 24 | os.getpid())]
    finally:
        for path in (dead, alive, other):
            path.unlink(missing_ok=True)
        for segment in (living, int(made.stdout)):
            libc.shmctl(segment, 0, None)


def test_a_file_system_without_nameless_files() -> None:
    """There a file has its name for a moment."""
    without = "import os; os.O_TMPFILE = os.O_DIRECTORY\n"
    argv = [sys.executable, "-c", without + source(), questions()]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert '"why"' not in done.stdout and '{"end": true}' in done.stdout
    assert left() == ([], [])


def test_eight_at_once_do_not_refuse_one_another() -> None:
    argv = [sys.executable, "-c", source(), questions()]
    children = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _rank in range(8)]
    for child in children:
        output, _error = child.communicate(timeout=30)
        assert not [line for line in output.splitlines() if '"why"' in line] and child.returncode == 0
