"""trial-python: quiet when all is there, a finding for each module and start that is not, else unknown."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest

from npudoctor import ERROR, WARNING, Severity, Status
from npudoctor.checks.trial.trial_python import trial_python
from npudoctor.core.errors import CannotTell, DoesNotRun
from npudoctor.core.frozen import replace
from npudoctor.testing import SITE, Asked, Content, ask, fake_host, package_files, unreadable
from npudoctor.testing.fakes import FakeTrials
from npudoctor.trial.trials import Attempt, Trial

SYSTEM, BUILT = "/usr/bin/python3", "/opt/python/bin/python3"
INSTALLERS = {"apt-get": "/usr/bin/apt-get", "dnf": "/usr/bin/dnf"}
USER_SITE = "/home/li/.local/lib/python3.11/site-packages"
TINY = "libtiny.so.1: cannot open shared object file: No such file or directory"


def module(name: str, why: str = "") -> Attempt:
    return Attempt(f"import {name}", 0, why, facts={"step": "import", "module": name})


def start(method: str, why: str = "Resource temporarily unavailable") -> Attempt:
    return Attempt(
        f"start {method}", errno.EAGAIN if why else 0, why, facts={"step": "start", "method": method}
    )


def judged(
    *attempts: Attempt,
    trial: Optional[Trial] = None,
    python: str = BUILT,
    installer: str = "apt-get",
    version: str = "3.11.2",
) -> Asked:
    files = {INSTALLERS[installer]: ""} if installer else {}
    host = fake_host(
        euid=1000, user="li", python=python, python_version=version, files=files,
        trials={"python": trial or Trial(attempts)},
    )  # fmt: skip
    return ask(trial_python, host)


def test_well() -> None:
    asked = judged(module("ctypes"), start("forkserver", ""), module("ssl"))
    assert asked.status is Status.OK and asked.codes == []


def test_a_log_level_that_torchrun_does_not_know() -> None:
    why = "Unknown level: 'debug'"
    asked_for: list[object] = []

    class Noting(FakeTrials):
        def try_part(self, part: str, **questions: object) -> Trial:
            asked_for.append(questions["levels"])
            refused = Attempt("set", 0, why, facts={"step": "log level", "variable": "LOGLEVEL"})
            return Trial((refused,) if questions["levels"] else ())

    for packages in ((), ("torch",)):
        files = {k: v for name in packages for k, v in package_files(name, "2.7.0").items()}
        host = fake_host(files, euid=1000, user="li", python=BUILT, variables={"LOGLEVEL": "debug"})
        host.trials = Noting({})
        asked = ask(trial_python, host)
        assert asked.codes == ["trial-python.cannot-start"] * len(packages)
    assert asked_for == [[], ["LOGLEVEL"]]
    (finding,) = asked.findings
    assert finding.message.endswith(f"the log level LOGLEVEL=debug: `{why}`")
    assert finding.fix is not None and finding.fix.commands == ("unset LOGLEVEL",)


@pytest.mark.parametrize(("packages", "severity"), [((), ERROR), (("torch",), WARNING)])
def test_a_closed_working_directory(packages: tuple[str, ...], severity: Severity) -> None:
    closed = Attempt("enter", errno.EACCES, facts={"step": "directory", "path": "/root"})
    files = {k: v for name in packages for k, v in package_files(name, "2.7.0").items()}
    host = fake_host(files, euid=1000, user="li", trials={"python": Trial((closed,))})
    (finding,) = ask(trial_python, host).findings
    assert (finding.code, finding.severity) == ("trial-python.cannot-start", severity)
    assert finding.message.endswith("cannot enter the working directory /root: Permission denied")


def test_it_waits_before_its_first_line() -> None:
    asked = judged(trial=Trial(hung="", waits_for="/far does not answer"))
    (finding,) = asked.findings
    assert finding.severity is ERROR and asked.status is Status.PROBLEM
    assert finding.message.endswith("does not start: /far does not answer")
    assert judged(trial=Trial(hung="")).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("requirement", "severity"),
    [("Requires-Dist: typing-extensions", ERROR), ("Requires-Dist: networkx", WARNING)],
)
def test_what_a_framework_requires_is_closed(requirement: str, severity: Severity) -> None:
    name = requirement.rpartition(" ")[2].replace("-", "_")
    refused = Attempt(f"import {name}", errno.EACCES, facts={"step": "needed", "module": name})
    files: dict[str, Content] = {
        **package_files("torch", "2.13.0", requirement),
        f"{SITE}/{name}-4.16.0.dist-info/METADATA": unreadable(),
        f"{SITE}/{name}.py": "",
    }
    host = fake_host(files, euid=1000, user="li", trials={"python": Trial((refused,))})
    (finding,) = ask(trial_python, host).findings
    assert (finding.code, finding.severity) == ("trial-python.module-missing", severity)
    line = f"chmod -R a+rX {SITE}/{name}.py {SITE}/{name}-4.16.0.dist-info"
    assert finding.fix is not None and finding.fix.commands == (line,)
    assert host.trials.asked["python"]["needed"] == [name]  # type: ignore[attr-defined]


PTH = {f"{USER_SITE}/gone-nspkg.pth": "import gone_package\n"}


@pytest.mark.parametrize(
    ("path", "finders", "files", "status"),
    [
        ([SITE, USER_SITE], ["_frozen_importlib"], PTH, Status.OK),
        ([SITE, USER_SITE, "/more"], ["_frozen_importlib"], PTH, Status.UNKNOWN),
        ([SITE, USER_SITE], ["gone_package"], PTH, Status.UNKNOWN),
        ([SITE, "/more"], ["gone_package"], {}, Status.OK),  # nothing else counts on it
    ],
)
def test_where_it_looks_for_modules(
    monkeypatch: pytest.MonkeyPatch,
    path: list[str],
    finders: list[str],
    files: dict[str, Content],
    status: Status,
) -> None:
    """Code of a .pth file that was not run for the other checks may have led it anywhere."""
    facts = {"step": "path", "search_path": path, "finders": finders}
    trials = {"python": Trial((Attempt("search path", facts=facts),))}
    host = fake_host(files, euid=1000, user="li", trials=trials)
    unread = tuple(files)
    layout = replace(host.interpreter.layout(), search_path=(SITE, USER_SITE), unread=unread)
    monkeypatch.setattr(host.interpreter, "layout", lambda: layout)
    asked = ask(trial_python, host)
    assert asked.status is status
    if unread:
        with pytest.raises(CannotTell) as told:
            host.interpreter.require_certain_absence("torch")
        assert told.value.tried_by == ("trial-python",)


def test_what_may_be_in_the_place_of_a_module_is_shown() -> None:
    why = "module 'queue' has no attribute 'Queue'"
    facts = {"step": "import", "module": "multiprocessing.queues", "others": ["/job/queue.py"]}
    (finding,) = judged(Attempt("import", 0, why, facts=facts)).findings
    assert finding.severity is ERROR and finding.evidence[1:] == ("/job/queue.py",)


@pytest.mark.parametrize(
    ("name", "why", "python", "installer", "severity", "sentence", "line"),
    [
        ("ctypes", "No module named '_ctypes'", BUILT, "apt-get", ERROR,
         "has no module ctypes: it was built without libffi", "apt-get install libffi-dev"),
        ("ctypes", "No module named '_ctypes'", BUILT, "dnf", ERROR,
         "has no module ctypes: it was built without libffi", "dnf install libffi-devel"),
        ("ctypes", "No module named '_ctypes'", BUILT, "", ERROR,
         "has no module ctypes: it was built without libffi", ""),
        ("ssl", "No module named '_ssl'", BUILT, "apt-get", WARNING,
         "has no module ssl: it was built without OpenSSL", "apt-get install libssl-dev"),
        ("lzma", "No module named '_lzma'", SYSTEM, "apt-get", WARNING,
         "has no module lzma: its standard library is incomplete",
         "apt-get install --reinstall libpython3.11-stdlib"),
        ("uuid", "No module named 'uuid'", SYSTEM, "dnf", ERROR,
         "has no module uuid: its standard library is incomplete", "dnf reinstall python3-libs"),
        ("uuid", "No module named 'uuid'", BUILT, "dnf", ERROR,
         "has no module uuid: its standard library is incomplete", ""),
        ("ctypes", TINY, BUILT, "apt-get", ERROR, "cannot import ctypes: libtiny.so.1 is missing",
         "apt-get install --reinstall libtiny1"),
        ("bz2", TINY.replace("tiny.so.1", "bz2.so.1.0"), BUILT, "apt-get", WARNING,
         "cannot import bz2: libbz2.so.1.0 is missing", "apt-get install --reinstall libbz2-1.0"),
        ("zlib", TINY.replace("tiny", "z"), BUILT, "apt-get", ERROR,
         "cannot import zlib: libz.so.1 is missing", "apt-get install --reinstall zlib1g"),
        ("ctypes", TINY, BUILT, "dnf", ERROR, "cannot import ctypes: libtiny.so.1 is missing",
         "dnf install 'libtiny.so.1()(64bit)'"),
        ("ssl", "/lib64/libssl.so.3: file too short", BUILT, "dnf", WARNING,
         "cannot import ssl: `/lib64/libssl.so.3: file too short`", "dnf reinstall 'libssl.so.3()(64bit)'"),
        ("multiprocessing.synchronize", "This platform lacks a functioning sem_open implementation", BUILT,
         "dnf", ERROR, "cannot import multiprocessing.synchronize: `This platform lacks", ""),
    ],
)  # fmt: skip
def test_a_module(
    name: str, why: str, python: str, installer: str, severity: Severity, sentence: str, line: str
) -> None:
    asked = judged(module(name, why), python=python, installer=installer)
    assert asked.codes == ["trial-python.module-missing"]
    (finding,) = asked.findings
    assert finding.severity is severity and finding.message.startswith(f"{python} {sentence}")
    assert finding.evidence == (f"`import {name}: {why}`",)
    assert (finding.fix.commands[-1] if finding.fix and finding.fix.commands else "") == line


def test_one_library_is_said_once() -> None:
    why = "No module named '_posixsubprocess'"
    assert len(judged(module("subprocess", why), module("multiprocessing.synchronize", why)).findings) == 1


@pytest.mark.parametrize(
    ("attempts", "version", "severity", "method"),
    [
        ((start("forkserver"), start("spawn", "")), "3.11.2", WARNING, "forkserver"),
        ((start("forkserver"), start("spawn", "")), "3.14.0", ERROR, "forkserver"),
        ((start("forkserver"), start("spawn")), "3.11.2", ERROR, "spawn"),
    ],
)
def test_another_python(attempts: tuple[Attempt, ...], version: str, severity: Severity, method: str) -> None:
    asked = judged(*attempts, version=version)
    assert asked.codes == ["trial-python.cannot-start"]
    (finding,) = asked.findings
    assert finding.severity is severity
    assert finding.message == (
        f"{BUILT} cannot start another Python by multiprocessing ({method}): {os.strerror(errno.EAGAIN)}"
    )


@pytest.mark.parametrize(
    ("trial", "sentence"),
    [
        (Trial(died="", last_line="ModuleNotFoundError: No module named 'encodings'"),
         "does not start: `ModuleNotFoundError: No module named 'encodings'`"),
        (Trial(died="", signal=11), "does not start: it is killed by signal 11"),
        (Trial(died="import ssl", signal=4), "is killed by signal 4 in `import ssl`"),
        (Trial(died="import ssl"), "exits in `import ssl`"),
    ],
)  # fmt: skip
def test_it_dies(trial: Trial, sentence: str) -> None:
    asked = judged(trial=trial)
    assert asked.codes == ["trial-python.cannot-start"]
    (finding,) = asked.findings
    assert finding.severity is ERROR and finding.message == f"{BUILT} {sentence}"
    assert "interpreter.does-not-run" in finding.echo_of


@pytest.mark.parametrize(
    ("error", "codes", "status"),
    [
        (
            DoesNotRun("/opt/python was not started: missing", 127, ""),
            ["trial-python.cannot-start"],
            Status.PROBLEM,
        ),
        (CannotTell("the deadline of the run was reached first"), [], Status.UNKNOWN),
    ],
)
def test_it_was_not_started(
    monkeypatch: pytest.MonkeyPatch, error: CannotTell, codes: list[str], status: Status
) -> None:
    def refuse(self: FakeTrials, part: str, **questions: object) -> Trial:
        raise error

    monkeypatch.setattr(FakeTrials, "try_part", refuse)
    asked = judged()
    assert asked.codes == codes and asked.status is status


@pytest.mark.parametrize(
    ("trial", "reason"),
    [
        (Trial(hung="start spawn"), "it waited in start spawn"),
        (Trial(died="import ssl", signal=9), "was killed by signal 9 in import ssl"),
        (
            Trial((Attempt("start a process", errno.EAGAIN, "no", facts={"step": "remover"}),)),
            "steps that need a file name were skipped",
        ),
    ],
)
def test_no_answer(trial: Trial, reason: str) -> None:
    asked = judged(trial=trial)
    assert asked.status is Status.UNKNOWN and reason in (asked.reason or "") and asked.codes == []


def test_root_is_not_the_job() -> None:
    asked = ask(trial_python, fake_host())
    assert asked.status is Status.SKIPPED and "--as-user" in (asked.reason or "")


def test_an_image_is_not_running() -> None:
    assert ask(trial_python, fake_host(root="/image", euid=1000)).status is Status.SKIPPED


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    whys = (
        "No module named '_ctypes'", "No module named 'uuid'", "libz.so.1: cannot open shared object file",
        "/lib64/libssl.so.3: file too short", "This platform lacks a functioning sem_open implementation",
    )  # fmt: skip
    for why in whys:
        for python, installer in (
            (BUILT, "apt-get"),
            (BUILT, "dnf"),
            (BUILT, ""),
            (SYSTEM, "apt-get"),
            (SYSTEM, "dnf"),
        ):
            yield judged(module("ctypes", why), python=python, installer=installer)
    yield judged(start("spawn"))
    yield judged(trial=Trial(died="", last_line="ModuleNotFoundError: No module named 'encodings'"))
    yield judged(trial=Trial(died="", signal=11))
    yield judged(trial=Trial(died="import ssl", signal=4))
    yield judged(trial=Trial(died="import ssl"))
    yield judged(trial=Trial(hung="import ssl"))
