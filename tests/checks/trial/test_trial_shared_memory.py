"""trial-shared-memory: quiet when all is given, what heals each refusal, unknown where no answer came."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

import pytest

from npudoctor import Action, Severity, Status
from npudoctor.checking.by_hand import SENTENCES
from npudoctor.checks.trial.trial_shared_memory import trial_shared_memory
from npudoctor.testing import Asked, Content, Memory, ask, fake_host, link, package_files
from npudoctor.trial.trials import Attempt, Trial

MIB, GIB = 1 << 20, 1 << 30
SHM = "/dev/shm"
MOUNTED = f"25 1 0:24 / {SHM} rw,nosuid,nodev shared:4 - tmpfs tmpfs rw,size=65536k\n"
ROOM: dict[str, Any] = {
    "bytes": 64 * MIB,
    "total": 64 * MIB,
    "free": 3 * MIB,
    "inodes": 1000,
    "inodes_free": 900,
}


def attempt(what: str, number: int, why: str = "", **facts: Any) -> Attempt:
    return Attempt(what, number, why or (os.strerror(number) if number else ""), facts=facts)


def judged(
    *attempts: Attempt,
    limits: Optional[Mapping[str, list[int]]] = None,
    container: bool = False,
    files: Optional[Mapping[str, Content]] = None,
    available: int = 100 * GIB,
    packages: Sequence[str] = (),
    **ended: object,
) -> Asked:
    known = Attempt("limits", facts={"limits": limits or {"-f": [-1, -1], "-v": [-1, -1]}})
    marks: dict[str, Content] = {"/.dockerenv": ""} if container else {}
    installed = {k: v for name in packages for k, v in package_files(name, "2.7.0").items()}
    host = fake_host(
        {"/proc/self/mountinfo": MOUNTED, **marks, **installed, **(files or {})},
        euid=1000,
        user="li",
        memory=Memory(128 * GIB, available),
        trials={"shared_memory": Trial((known, *attempts), **ended)},  # type: ignore[arg-type]
    )
    return ask(trial_shared_memory, host)


def told(asked: Asked) -> tuple[str, str, tuple[str, ...]]:
    """The code, the sentence, and what heals it: lines, else the title that the check itself gives."""
    (finding,) = asked.findings
    own = finding.fix is not None and finding.fix.title not in SENTENCES.values()
    lines = finding.fix.commands or (finding.fix.title,) if finding.fix and own else ()
    return finding.code.partition(".")[2], finding.message, lines


def test_well() -> None:
    asked = judged(attempt("segment", 0, **ROOM), attempt("sysv", 0))
    assert asked.status is Status.OK and asked.codes == []


def test_a_full_one_has_room_for_all_but_data_loaders() -> None:
    asked = judged(attempt("segment", errno.ENOSPC, **ROOM))
    assert told(asked) == (
        "no-room",
        "no room for 64 MiB of shared memory in /dev/shm: 3 MiB of 64 MiB are free",
        ("mount -o remount,size=16g /dev/shm",),
    )
    (finding,) = asked.findings
    assert finding.severity is Severity.WARNING and finding.action is Action.CLEANUP
    assert told(judged(attempt("segment", errno.ENOSPC, **ROOM), container=True))[2] == (
        "ask whoever starts the container to add --shm-size 16g",
    )
    large = {**ROOM, "total": 64 * GIB}
    assert "npudoctor check shared-memory" in told(judged(attempt("segment", errno.ENOSPC, **large)))[2][0]


def test_a_tiny_one_is_said_once() -> None:
    tiny = {**ROOM, "total": 64 << 10, "free": 64 << 10}
    small = {**tiny, "bytes": MIB}
    asked = judged(attempt("segment", errno.ENOSPC, **tiny), attempt("small", errno.ENOSPC, **small))
    assert told(asked)[:2] == (
        "no-room",
        "no room for 1 MiB of shared memory in /dev/shm: 64 KiB of 64 KiB are free",
    )
    assert asked.findings[0].severity is Severity.ERROR and asked.findings[0].action is Action.CONFIG


def test_no_inode_is_left() -> None:
    none = {**ROOM, "inodes_free": 0}
    asked = judged(attempt("small", errno.ENOSPC, **none), attempt("semaphore", errno.ENOSPC, **none))
    assert told(asked) == (
        "no-room",
        "no file can be added to /dev/shm: all of its 1000 inodes are in use",
        ("mount -o remount,nr_inodes=1000000 /dev/shm",),
    )


@pytest.mark.parametrize(
    ("number", "flag", "line"), [(errno.EFBIG, "-f", "ulimit -Sf"), (errno.ENOMEM, "-v", "ulimit -Sv")]
)
def test_a_limit_of_the_shell(number: int, flag: str, line: str) -> None:
    asked = judged(attempt("segment", number, **ROOM), limits={flag: [MIB, -1]})
    assert told(asked) == (
        "no-room",
        f"ulimit {flag} does not allow 64 MiB of shared memory",
        (f"{line} unlimited",),
    )


def test_room_that_nobody_counts() -> None:
    assert told(judged(attempt("small", errno.ENOMEM, bytes=MIB))) == (
        "no-room",
        "1 MiB of shared memory cannot be allocated: Cannot allocate memory",
        (),
    )


@pytest.mark.parametrize(
    ("number", "facts", "message", "lines"),
    [
        (
            errno.ENOENT,
            {},
            "processes cannot share memory: there is no /dev/shm",
            ("mkdir -p /dev/shm", "mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs /dev/shm"),
        ),
        (
            errno.EROFS,
            {},
            "processes cannot share memory: /dev/shm is read-only",
            ("mount -o remount,rw /dev/shm",),
        ),
        (
            errno.EACCES,
            {"mode": 0o755, "owner": 0},
            "this user cannot write to /dev/shm, which has the mode 0755",
            ("chmod 1777 /dev/shm",),
        ),
        (
            errno.EPERM,
            {"mode": 0o1777},
            "the kernel refuses shared memory in /dev/shm: Operation not permitted",
            (),
        ),
    ],
)
def test_refused(number: int, facts: dict[str, int], message: str, lines: tuple[str, ...]) -> None:
    attempts = [Attempt(what, number, os.strerror(number), facts=facts) for what in ("small", "semaphore")]
    asked = judged(*attempts)
    assert told(asked) == ("refused", message, lines)
    assert asked.findings[0].severity is Severity.ERROR


def test_a_link_that_leads_nowhere_is_in_the_way() -> None:
    missing = Attempt("small", errno.ENOENT, os.strerror(errno.ENOENT))
    assert told(judged(missing, files={"/dev/shm": link("/run/shm")}))[2][:2] == (
        "rm /dev/shm",
        "mkdir -p /dev/shm",
    )


def test_no_file_may_have_a_byte() -> None:
    """No line that gives nothing."""
    asked = judged(attempt("semaphore", errno.EFBIG), limits={"-f": [0, 0]})
    assert asked.findings[0].fix is not None and asked.findings[0].fix.commands == ()


def test_a_profile_of_system_calls() -> None:
    asked = judged(attempt("small", errno.EPERM, mode=0o1777), container=True)
    assert told(asked)[2] == ("ask whoever starts the container to add --security-opt seccomp=unconfined",)


def test_a_python_without_semaphores() -> None:
    asked = judged(attempt("module", 0, "No module named '_multiprocessing'", module="_multiprocessing"))
    code, message, _lines = told(asked)
    assert code == "refused"
    assert message == "this Python cannot load _multiprocessing: `No module named '_multiprocessing'`"
    assert asked.findings[0].echo_of == ("trial-python.module-missing",)


@pytest.mark.parametrize(
    ("umask", "line", "packages", "severity"),
    [
        (0o022, "setfacl -k /dev/shm", (), Severity.ERROR),
        (0o022, "setfacl -k /dev/shm", ("torch",), Severity.WARNING),
        (0o722, "umask 0022", (), Severity.ERROR),
    ],
)
def test_what_cannot_be_opened_by_its_name(
    umask: int, line: str, packages: tuple[str, ...], severity: Severity
) -> None:
    asked = judged(attempt("again", errno.EACCES, umask=umask), packages=packages)
    message = "a file created in /dev/shm cannot be reopened by its name: Permission denied"
    assert told(asked) == ("refused", message, (line,))
    assert asked.findings[0].severity is severity


@pytest.mark.parametrize(
    ("what", "packages", "severity"),
    [
        ("listener", ("torch",), Severity.ERROR),
        ("listener", (), Severity.WARNING),
        ("socketpair", ("torch",), Severity.WARNING),
    ],
)
def test_unix_sockets(what: str, packages: tuple[str, ...], severity: Severity) -> None:
    asked = judged(attempt(what, errno.EPERM), packages=packages)
    message = "processes cannot send memory over a Unix socket: Operation not permitted"
    assert told(asked) == ("refused", message, ())
    assert asked.findings[0].severity is severity


@pytest.mark.parametrize(
    ("number", "settings", "lines"),
    [
        (errno.EINVAL, {"shmmax": "0"}, ("sysctl -w kernel.shmmax=18446744073692774399",)),
        (
            errno.ENOSPC,
            {"shmall": "10", "shmmni": "0"},
            ("sysctl -w kernel.shmall=18446744073692774399", "sysctl -w kernel.shmmni=4096"),
        ),
        (errno.ENOSPC, {"shmall": "99999", "shmmni": "4096"}, ("sysctl -w kernel.shmmni=32768",)),
        (errno.ENOSPC, {"shmmni": "32768"}, ()),
    ],
)
def test_system_v(number: int, settings: dict[str, str], lines: tuple[str, ...]) -> None:
    files: dict[str, Content] = {f"/proc/sys/kernel/{name}": f"{value}\n" for name, value in settings.items()}
    asked = judged(attempt("sysv", number), files=files)
    assert told(asked) == (
        "no-room",
        f"a System V shared memory segment of 1 MiB is refused: {os.strerror(number)}",
        lines,
    )
    assert asked.findings[0].severity is Severity.WARNING


def test_system_v_in_a_container() -> None:
    asked = judged(attempt("sysv", errno.EINVAL), files={"/proc/sys/kernel/shmmax": "0\n"}, container=True)
    option = "--sysctl kernel.shmmax=18446744073692774399"
    assert told(asked)[2] == (f"ask whoever starts the container to add {option}",)


def test_a_kernel_without_system_v() -> None:
    assert told(judged(attempt("sysv", errno.ENOSYS)))[0] == "refused"


def test_killed_while_it_took_memory() -> None:
    asked = judged(died="segment", signal=7)
    assert told(asked)[:2] == ("no-room", "the kernel ended the trial when it took 64 MiB of shared memory")


def test_no_answer() -> None:
    assert judged(hung="semaphore").reason == "the trial did not finish in time; it waited in semaphore"
    assert judged(died="sysv", signal=31).status is Status.UNKNOWN


def test_little_memory_is_not_taken() -> None:
    host = fake_host(euid=1000, user="li", memory=Memory(128 * GIB, GIB - 1))
    asked = ask(trial_shared_memory, host)
    assert host.trials.asked == {"shared_memory": {"large": 0}}  # type: ignore[attr-defined]
    assert asked.status is Status.UNKNOWN and "64 MiB" in (asked.reason or "")


def test_root_and_images() -> None:
    assert ask(trial_shared_memory, fake_host()).status is Status.SKIPPED
    assert ask(trial_shared_memory, fake_host(root="/image", euid=1000)).status is Status.SKIPPED


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    for container in (False, True):
        for total in (MIB, 64 * MIB, 64 * GIB):
            yield judged(attempt("segment", errno.ENOSPC, **{**ROOM, "total": total}), container=container)
            yield judged(attempt("small", errno.ENOSPC, **{**ROOM, "total": total}), container=container)
        yield judged(attempt("small", errno.ENOSPC, **{**ROOM, "inodes_free": 0}), container=container)
        for what in ("small", "semaphore", "socketpair", "listener", "sysv"):
            for number in (errno.ENOENT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.ENOMEM):
                yield judged(attempt(what, number, mode=0o755, owner=0), container=container)
        yield judged(
            attempt("sysv", errno.EINVAL), files={"/proc/sys/kernel/shmmax": "1\n"}, container=container
        )
    for number, flag in ((errno.EFBIG, "-f"), (errno.ENOMEM, "-v")):
        yield judged(attempt("segment", number, **ROOM), limits={flag: [MIB, -1]})
    yield judged(attempt("module", 0, "No module named '_multiprocessing'", module="_multiprocessing"))
    yield judged(died="small", signal=7)
    yield judged(hung="small")
    yield judged(attempt("sysv", 0), available=GIB - 1)
