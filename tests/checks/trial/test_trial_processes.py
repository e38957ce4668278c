"""trial-processes: quiet when all is given, for each refusal who it was, unknown where no answer came."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional
from unittest.mock import Mock

import pytest

from npudoctor import Severity, Status
from npudoctor.checking.by_hand import SENTENCES
from npudoctor.checks.trial.trial_processes import trial_processes
from npudoctor.core.errors import CannotTell
from npudoctor.testing import Asked, Content, Limit, ask, fake_host, package_files
from npudoctor.trial.trials import Attempt, Trial

JOB = "/sys/fs/cgroup/pids/job"
GROUP = "/sys/fs/cgroup/pids/user.slice/user-1000.slice"
FREE = {"-t": [-1, -1], "-u": [4096, 9999], "-n": [1024, 4096], "-v": [-1, -1], "-s": [8 << 20, -1]}


def attempt(what: str, number: int = errno.EAGAIN, why: str = "", **facts: object) -> Attempt:
    return Attempt(what, number, why or (os.strerror(number) if number else ""), facts=facts)


def judged(
    *attempts: Attempt,
    limits: Optional[Mapping[str, list[int]]] = None,
    container: bool = False,
    files: Optional[Mapping[str, Content]] = None,
    variables: Optional[Mapping[str, str]] = None,
    died: Optional[str] = None,
    hung: Optional[str] = None,
) -> Asked:
    known = Attempt("limits", facts={"limits": {**FREE, **(limits or {})}})
    marks: dict[str, Content] = {"/.dockerenv": ""} if container else {}
    host = fake_host(
        {**marks, **(files or {})},
        variables=variables or {},
        euid=1000,
        user="li",
        trials={"processes": Trial((known, *attempts), died=died, hung=hung, signal=9 if died else 0)},
    )
    return ask(trial_processes, host)


def told(asked: Asked) -> tuple[str, str, tuple[str, ...]]:
    """The code, the sentence, and what heals it: lines, else the title that the check itself gives."""
    (finding,) = asked.findings
    own = finding.fix is not None and finding.fix.title not in SENTENCES.values()
    lines = finding.fix.commands or (finding.fix.title,) if finding.fix and own else ()
    return finding.code.partition(".")[2], finding.message, lines


def test_well() -> None:
    asked = judged(attempt("processes", 0, started=1), attempt("threads", 0, least=64))
    assert asked.status is Status.OK and asked.codes == []


@pytest.mark.parametrize(
    ("variables", "ranks", "threads"),
    [({}, 1, 64), ({"LOCAL_WORLD_SIZE": "8"}, 8, 64), ({"OMPI_COMM_WORLD_LOCAL_SIZE": "999"}, 64, 16)],
)
def test_as_many_as_ranks(variables: dict[str, str], ranks: int, threads: int) -> None:
    facts = judged(variables=variables).facts
    assert (facts["ranks"], facts["threads"]) == (ranks, threads)


def test_the_limit_of_the_user_refuses() -> None:
    asked = judged(attempt("threads", least=2, all_ranks=2, own=4095))
    assert told(asked) == (
        "no-threads",
        "a rank could start only 2 of 64 threads: ulimit -u allows this user 4096 processes and threads",
        ("ulimit -Su 9999",),
    )
    (finding,) = asked.findings
    assert finding.severity is Severity.ERROR
    assert finding.evidence == (
        "ulimit -Su 4096, ulimit -Hu 9999",
        "4095 processes and threads of this user were seen when it was refused",
    )


def test_a_hard_limit_that_is_too_low_is_for_somebody_else() -> None:
    asked = judged(attempt("processes", started=0), limits={"-u": [6, 60]})
    code, message, lines = told(asked)
    assert code == "no-processes" and message.startswith("only 0 of 1 processes could be started: ulimit -u")
    assert lines == (
        "ask whoever sets the limits of this session to raise ulimit -u: the hard limit is too low",
    )


@pytest.mark.parametrize(
    ("count", "mindspore", "severity"),
    [(19, False, Severity.ERROR), (20, False, Severity.WARNING), (47, True, Severity.ERROR)],
)
def test_some_threads_are_enough_for_some(count: int, mindspore: bool, severity: Severity) -> None:
    packages = package_files("mindspore", "2.7.0") if mindspore else {}
    (finding,) = judged(attempt("threads", least=count, all_ranks=count), files=packages).findings
    assert finding.severity is severity


def test_the_control_group_refuses() -> None:
    refused = attempt("threads", least=9, all_ranks=9, groups=[[GROUP, 33, 33], ["/sys/fs/cgroup", 50, 99]])
    asked = judged(refused)
    assert told(asked) == (
        "no-threads",
        f"a rank could start only 9 of 64 threads: the control group {GROUP} allows 33 processes and threads",
        ("systemctl set-property user-1000.slice TasksMax=infinity",),
    )
    assert asked.findings[0].evidence == (f"{GROUP}/pids.max 33, pids.current 33",)
    assert told(judged(refused, container=True))[2] == (
        "ask whoever starts the container to add --pids-limit -1",
    )
    plain = attempt("processes", started=0, groups=[["/sys/fs/cgroup/pids/slurm", 2, 2]])
    assert told(judged(plain))[2] == ("sh -c 'echo max > /sys/fs/cgroup/pids/slurm/pids.max'",)


@pytest.mark.parametrize(
    ("facts", "setting"),
    [
        ({"seen": 32700, "pid_max": 32768}, "kernel.pid_max"),
        ({"all": 800, "threads-max": 800}, "kernel.threads-max"),
    ],
)
def test_the_kernel_has_no_room(facts: dict[str, int], setting: str) -> None:
    path = f"/proc/sys/{setting.replace('.', '/')}"
    asked = judged(Attempt("threads", errno.EAGAIN, "no", facts={"least": 1, **facts}), files={path: "800\n"})
    _code, message, (line,) = told(asked)
    assert message.endswith(f": {setting} is 800") and line.startswith(f"sysctl -w {setting}=")


def test_nobody_who_could_have_refused_is_seen() -> None:
    asked = judged(attempt("threads", least=1), limits={"-u": [-1, -1]})
    _code, message, lines = told(asked)
    assert message.endswith("threads: Resource temporarily unavailable") and lines == ()


def test_no_room_for_stacks() -> None:
    refused = attempt("threads", errno.ENOMEM, least=3)
    assert told(judged(refused, limits={"-s": [1 << 39, -1]})) == (
        "no-threads",
        "a rank could start only 3 of 64 threads: no room for its stack (ulimit -s)",
        ("ulimit -Ss 8192",),
    )
    _code, message, lines = told(judged(refused, limits={"-v": [1 << 30, -1]}))
    assert message.endswith("in the address space (ulimit -v)") and lines == ("ulimit -Sv unlimited",)
    assert told(judged(refused))[1].endswith("Cannot allocate memory")
    forked = attempt("processes", errno.ENOMEM, started=0)
    assert told(judged(forked, limits={"-v": [1 << 30, -1]}))[1].endswith("Cannot allocate memory")


@pytest.mark.parametrize(("count", "severity"), [(20, Severity.ERROR), (32, Severity.WARNING)])
def test_few_descriptors(count: int, severity: Severity) -> None:
    asked = judged(attempt("descriptors", errno.EMFILE, least=count), limits={"-n": [count + 9, 4096]})
    (finding,) = asked.findings
    assert told(asked) == (
        "no-descriptors",
        f"a rank could open only {count} of 256 files: ulimit -n allows {count + 9} open files",
        ("ulimit -Sn 4096",),
    )
    assert finding.severity is severity


def test_the_machine_has_no_file_left() -> None:
    asked = judged(attempt("pipe2", errno.ENFILE), files={"/proc/sys/fs/file-max": "1000\n"})
    assert told(asked)[1] == "the kernel refuses pipe2: fs.file-max is 1000"


@pytest.mark.parametrize(
    ("call", "number", "code"),
    [
        ("epoll_create1", errno.ENOSYS, "no-descriptors"),
        ("eventfd2", errno.ENOSYS, "no-descriptors"),
        ("sched_getaffinity", errno.EPERM, "no-threads"),
        ("setsid", errno.EPERM, "no-processes"),
    ],
)
def test_a_call_that_is_filtered(call: str, number: int, code: str) -> None:
    refused = attempt(call, number)
    assert told(judged(refused)) == (code, f"the kernel refuses {call}: {os.strerror(number)}", ())
    assert told(judged(refused, container=True))[2] == (
        "ask whoever starts the container to add --security-opt seccomp=unconfined",
    )


@pytest.mark.parametrize(("packages", "severity"), [((), Severity.WARNING), (("torch",), Severity.ERROR)])
def test_launchers_of_frameworks_start_sessions(packages: tuple[str, ...], severity: Severity) -> None:
    files = {k: v for name in packages for k, v in package_files(name, "2.7.0").items()}
    (finding,) = judged(attempt("setsid", errno.EPERM), files=files).findings
    assert finding.severity is severity


def test_frameworks_do_without_a_pidfd() -> None:
    assert judged(attempt("pidfd", errno.ENOSYS)).codes == []


def test_ranks_that_ended_early() -> None:
    asked = judged(attempt("ranks", 0, why="1 of 2 processes ended early"))
    assert told(asked)[0] == "no-processes"


TORCH, MINDSPORE = package_files("torch", "2.7.0"), package_files("mindspore", "2.7.0")


@pytest.mark.parametrize(
    ("seconds", "files", "severity"),
    [
        (2, TORCH, Severity.ERROR),
        (2, MINDSPORE, Severity.ERROR),
        (2, {}, Severity.WARNING),
        (600, TORCH, Severity.WARNING),
        (3600, TORCH, None),
        (-1, TORCH, None),
    ],
)
def test_cpu_time(seconds: int, files: Mapping[str, Content], severity: Optional[Severity]) -> None:
    """What needs no framework may be done within seconds."""
    asked = judged(limits={"-t": [seconds, -1]}, files=files)
    assert [finding.severity for finding in asked.findings] == ([severity] if severity else [])
    if severity:
        text = f"a process is ended after {seconds} s of CPU time (ulimit -t)"
        assert told(asked) == ("cpu-time", text, ("ulimit -St unlimited",))


def test_no_answer() -> None:
    assert judged(hung="ranks").reason == "the trial did not finish in time; it waited in ranks"
    assert judged(died="ranks").status is Status.UNKNOWN


@pytest.mark.parametrize("most", ["4", "max"])
def test_not_even_the_first_process_is_started(most: str) -> None:
    pids = {
        "/proc/self/cgroup": "8:pids:/job\n",
        f"{JOB}/pids.current": "4\n",
        f"{JOB}/pids.max": f"{most}\n",
    }
    host = fake_host(
        {"/proc/self/cgroup": "8:pids:/job\n", **pids},
        euid=1000,
        user="li",
        limits={"Max processes": Limit(6, 6)},
        trials={"processes": Trial()},
    )
    reason = "/usr/bin/python3 was not started: [Errno 11] Resource temporarily unavailable"
    host.trials.try_part = Mock(side_effect=CannotTell(reason))  # type: ignore[method-assign]
    code, message, _lines = told(ask(trial_processes, host))
    group = f"the control group {JOB} allows 4 processes and threads"
    who = group if most == "4" else "ulimit -u allows this user 6 processes and threads"
    assert (code, message) == ("no-processes", f"only 0 of 1 processes could be started: {who}")
    host.trials.try_part = Mock(side_effect=CannotTell("it does not answer"))  # type: ignore[method-assign]
    assert ask(trial_processes, host).status is Status.UNKNOWN


def test_root_and_images() -> None:
    assert ask(trial_processes, fake_host()).status is Status.SKIPPED
    assert ask(trial_processes, fake_host(root="/image", euid=1000)).status is Status.SKIPPED


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    for what in ("processes", "threads", "descriptors", "pipe2", "sched_getaffinity"):
        yield judged(attempt(what, errno.EPERM), container=True)
        yield judged(attempt(what, errno.EMFILE), limits={"-n": [300, 400]})
        yield judged(attempt(what, errno.ENFILE), files={"/proc/sys/fs/file-max": "1000\n"})
        yield judged(attempt(what, own=4000), limits={"-u": [6, 60]})
        yield judged(attempt(what, own=4000), limits={"-u": [6, -1]})
        yield judged(attempt(what, groups=[[GROUP, 33, 33]]))
    yield judged(attempt("threads", groups=[[GROUP, 33, 33]]), container=True)
    yield judged(attempt("threads", errno.ENOMEM), limits={"-s": [1 << 40, -1]})
    yield judged(attempt("threads", errno.ENOMEM), limits={"-v": [1 << 30, -1]})
    yield judged(attempt("ranks", 0, why="1 of 2 processes ended early"))
    yield judged(limits={"-t": [300, -1]})
    yield judged(limits={"-t": [300, 300]})
    yield judged(limits={"-t": [300, 300]}, container=True)
    yield judged(hung="threads")
    yield judged(died="threads")
