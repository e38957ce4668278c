"""trial-memory: quiet when all is given, a finding for each refusal, unknown where no answer came."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.trial.trial_memory import trial_memory
from npudoctor.testing import Asked, Content, Limit, Memory, ask, fake_host, package_files
from npudoctor.testing.fakes import SITE
from npudoctor.trial.trials import Attempt, Trial

GIB = 1 << 30
FREE = Limit(None, None)
LIMITS = dict.fromkeys(("Max address space", "Max data size", "Max locked memory"), FREE)


def attempt(what: str, number: int = errno.ENOMEM, **facts: object) -> Attempt:
    return Attempt(what, number, os.strerror(number) if number else "", facts={"bytes": GIB, **facts})


def judged(trial: Trial, available: int = 100 * GIB, limits: Optional[dict[str, Limit]] = None) -> Asked:
    host = fake_host(
        euid=1000,
        user="li",
        memory=Memory(128 * GIB, available),
        limits={**LIMITS, **(limits or {})},
        trials={"memory": trial},
    )
    return ask(trial_memory, host)


def test_well() -> None:
    asked = judged(Trial((attempt("reserve", 0), attempt("touch", 0), attempt("ctypes", 0))))
    assert asked.status is Status.OK and asked.codes == []


@pytest.mark.parametrize(
    ("what", "code", "severity", "sentence"),
    [
        ("reserve", "cannot-reserve", Severity.WARNING, "a process cannot reserve 1 GiB of address space: "),
        ("grow", "cannot-reserve", Severity.WARNING, "the data segment of a process cannot grow by 1 GiB: "),
        ("touch", "cannot-allocate", Severity.ERROR, "a process cannot allocate 1 GiB of memory: "),
        ("lock", "cannot-allocate", Severity.WARNING, "a process cannot lock 1 GiB of memory: "),
    ],
)
def test_refused(what: str, code: str, severity: Severity, sentence: str) -> None:
    asked = judged(Trial((attempt(what),)))
    assert asked.codes == [f"trial-memory.{code}"]
    (finding,) = asked.findings
    assert finding.severity is severity and finding.message == f"{sentence}{os.strerror(errno.ENOMEM)}"
    assert finding.fix is None or finding.fix.commands == ()


@pytest.mark.parametrize(("hard", "line"), [(None, "ulimit -Sv unlimited"), (2 * GIB, "ulimit -Sv 2097152")])
def test_the_limit_that_refused_is_raised(hard: Optional[int], line: str) -> None:
    asked = judged(Trial((attempt("reserve"),)), limits={"Max address space": Limit(GIB, hard)})
    (finding,) = asked.findings
    assert finding.fix is not None and finding.fix.commands == (line,)


def test_a_hard_limit_is_for_somebody_else_to_raise() -> None:
    asked = judged(Trial((attempt("reserve"),)), limits={"Max address space": Limit(GIB, GIB)})
    (finding,) = asked.findings
    assert finding.fix is not None and finding.fix.commands == () and "ulimit -v" in finding.fix.title
    assert finding.evidence == ("ulimit -Sv 1048576, ulimit -Hv 1048576",)


def test_a_library_that_cannot_be_mapped() -> None:
    asked = judged(Trial((attempt("execute", errno.EPERM, path="/opt/lib/libc.so"),)))
    assert asked.codes == ["trial-memory.cannot-execute"]
    assert "/opt/lib/libc.so" in asked.findings[0].message


def test_killed_while_it_touched_memory() -> None:
    asked = judged(Trial((attempt("reserve", 0),), died="touch", signal=9))
    assert asked.codes == ["trial-memory.cannot-allocate"]


@pytest.mark.parametrize(
    ("trial", "reason"),
    [
        (Trial(hung="touch"), "the trial did not finish in time; it waited in touch"),
        (Trial(died="lock", signal=31), "the trial was ended by signal 31 in lock"),
        (
            Trial((Attempt("ctypes", 0, "No module named _ctypes"),)),
            "this Python cannot request memory: `No module named _ctypes`",
        ),
    ],
)
def test_no_answer(trial: Trial, reason: str) -> None:
    asked = judged(trial)
    assert asked.status is Status.UNKNOWN and asked.reason == reason


def test_little_memory_is_not_touched() -> None:
    asked = judged(Trial((attempt("reserve", 0),)), available=GIB - 1)
    assert asked.status is Status.UNKNOWN and "did not touch" in (asked.reason or "")


CGROUP = "/sys/fs/cgroup/job.scope"
MODULES = {"torch": "_C", "mindspore": "_c_expression"}


def grouped(size: int, variables: Mapping[str, str], packages: Mapping[str, str], container: bool) -> Asked:
    """In a control group of so many MiB."""
    files: dict[str, Content] = {
        "/proc/self/cgroup": "0::/job.scope\n",
        f"{CGROUP}/memory.max": f"{size << 20}\n",
        f"{CGROUP}/memory.current": "1000000\n",
        **({"/.dockerenv": ""} if container else {}),
    }
    for name, version in packages.items():
        files.update(package_files(name, version))
        files[f"{SITE}/{name}/{MODULES[name]}.so"] = ""
    host = fake_host(
        files,
        variables=variables,
        euid=1000,
        user="li",
        memory=Memory(128 * GIB, 100 * GIB),
        limits=LIMITS,
        trials={"memory": Trial((attempt("reserve", 0),))},
    )
    return ask(trial_memory, host)


@pytest.mark.parametrize(
    ("size", "variables", "packages", "least"),
    [
        (256, {}, {}, 0),
        (128, {}, {"torch": "2.13.0"}, 140),
        (128, {}, {"mindspore": "2.7.0"}, 140),
        (256, {}, {"torch": "2.13.0"}, 0),
        (256, {"MASTER_ADDR": "127.0.0.1"}, {"torch": "2.13.0"}, 280),
        (256, {"MASTER_ADDR": "127.0.0.1", "LOCAL_WORLD_SIZE": "1"}, {"torch": "2.13.0"}, 0),
        (512, {"LOCAL_WORLD_SIZE": "4"}, {"torch": "2.13.0"}, 560),
        (512, {"MASTER_ADDR": "127.0.0.1"}, {"torch": "2.13.0"}, 0),
    ],
)
def test_a_framework_has_no_room_in_the_control_group(
    size: int, variables: Mapping[str, str], packages: Mapping[str, str], least: int
) -> None:
    asked = grouped(size, variables, packages, container=False)
    assert asked.codes == (["trial-memory.cannot-allocate"] if least else [])
    assert asked.status is Status.UNKNOWN
    for finding in asked.findings:
        assert finding.severity is Severity.ERROR and f"take at least {least} MiB" in finding.message
        assert finding.fix and finding.fix.commands == (
            "systemctl set-property job.scope MemoryMax=infinity",
        )


def test_root_is_not_the_job() -> None:
    asked = ask(trial_memory, fake_host())
    assert asked.status is Status.SKIPPED and "--as-user" in (asked.reason or "")


def test_an_image_is_not_running() -> None:
    assert ask(trial_memory, fake_host(root="/image", euid=1000)).status is Status.SKIPPED


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    for what in ("reserve", "grow", "touch", "lock"):
        yield judged(Trial((attempt(what),)))
    for hard in (None, GIB):
        yield judged(Trial((attempt("reserve"),)), limits={"Max address space": Limit(GIB, hard)})
    yield judged(Trial((attempt("execute", errno.EPERM, path="/opt/lib/libc.so"),)))
    yield judged(Trial((), died="touch", signal=9))
    yield judged(Trial((Attempt("ctypes", 0, "No module named _ctypes"),)))
    yield judged(Trial((attempt("reserve", 0),)), available=GIB - 1)
    yield judged(Trial(hung="touch"))
    for container in (True, False):
        yield grouped(128, {}, {"torch": "2.13.0"}, container)
    yield judged(Trial(died="", signal=11))
