"""trial-files: quiet when all is given, a finding and a remedy for each refusal, else unknown."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest

from npudoctor import ERROR, WARNING, Severity, Status
from npudoctor.checks.trial.trial_files import trial_files
from npudoctor.core.errors import CannotTell, Silent
from npudoctor.host import Host
from npudoctor.host.fs.files import Entry
from npudoctor.host.options import Options
from npudoctor.host.users.identity import Account
from npudoctor.testing import Asked, Limit, ask, fake_host, folder, link, package_files
from npudoctor.testing.disk import Content
from npudoctor.trial.trials import Attempt, Trial

HOME = "/home/li"
MOUNTS = """\
1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 0:2 / /scratch rw,noexec - tmpfs t rw
3 1 0:3 / /data ro - nfs4 server:/data rw,vers=4.1
4 1 0:4 / /dev rw,nosuid,nodev - tmpfs t rw
"""
FILES: dict[str, Content] = {
    "/proc/self/mountinfo": MOUNTS,
    "/proc/self/cwd": link(HOME),
    "/etc/passwd": f"root:x:0:0::/root:/bin/sh\nli:x:1000:1000::{HOME}:/bin/sh\n",
    **{place: folder() for place in ("/tmp", "/scratch", "/data", HOME)},
}


def attempt(step: str, path: str = "/tmp", number: int = 0, **facts: object) -> Attempt:
    why = os.strerror(number) if number else ""
    return Attempt(f"{step} {path}", number, why, facts={"step": step, "path": path, "name": "", **facts})


def judged(
    *attempts: Attempt,
    trial: Optional[Trial] = None,
    packages: tuple[str, ...] = (),
    limits: Optional[dict[str, Limit]] = None,
    variables: Optional[dict[str, str]] = None,
) -> Asked:
    host = fake_host(
        euid=1000,
        user="li",
        files={**FILES, **{k: v for name in packages for k, v in package_files(name, "2.7.0").items()}},
        variables={"HOME": HOME, **(variables or {})},
        limits=limits or {},
        trials={"files": trial or Trial(attempts)},
    )
    return ask(trial_files, host)


def test_well() -> None:
    asked = judged(attempt("device", "/dev/null"), attempt("temporary"), attempt("socket"))
    assert asked.status is Status.OK and asked.codes == []


@pytest.mark.parametrize(
    ("refused", "code", "severity", "sentence", "line"),
    [
        (attempt("device", "/dev/null", errno.ENOENT), "device-unusable", ERROR,
         "li cannot open /dev/null: it does not exist", "mknod -m 666 /dev/null c 1 3"),
        (attempt("device", "/dev/urandom", errno.ENOENT), "device-unusable", WARNING,
         "li cannot open /dev/urandom: it does not exist", "mknod -m 666 /dev/urandom c 1 9"),
        (attempt("device", "/dev/null", errno.ENODEV, device=False), "device-unusable", WARNING,
         "/dev/null is not the kernel's device: data written to it stays there",
         "mknod -m 666 /dev/null c 1 3"),
        (attempt("proc", "/proc/meminfo", errno.ENOTCONN), "device-unusable", WARNING,
         "li cannot read /proc/meminfo: Transport endpoint is not connected", ""),
        (attempt("terminal", "/dev/ptmx", errno.ENOENT), "device-unusable", WARNING,
         "no pseudo-terminal can be opened: it does not exist",
         "mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts /dev/pts"),
        (attempt("terminal", "/dev/ptmx", errno.EACCES), "device-unusable", WARNING,
         "no pseudo-terminal can be opened: Permission denied; /dev belongs to root, mode 0755",
         "mknod -m 666 /dev/ptmx c 5 2"),
        (attempt("temporary", "/gone", errno.ENOENT, name="TMPDIR"), "cannot-write", WARNING,
         "li cannot write to TMPDIR=/gone: it does not exist; temporary files go to /tmp", "unset TMPDIR"),
        (attempt("folder", "/data/cache", errno.EROFS, name="TRITON_CACHE_DIR", at="/data"), "cannot-write",
         WARNING, "li cannot write to /data/cache (TRITON_CACHE_DIR): /data is mounted read-only",
         "mount -o remount,rw /data"),
        (attempt("folder", "/root/cache", errno.EACCES, name="TRITON_CACHE_DIR", at="/"), "cannot-write",
         WARNING,
         "li cannot write to /root/cache (TRITON_CACHE_DIR): Permission denied; / belongs to root, mode 0755",
         "export TRITON_CACHE_DIR=/tmp/li-triton_cache_dir"),
        (attempt("folder", HOME, errno.EACCES, name="HOME", at=HOME), "cannot-write", WARNING,
         f"li cannot write to {HOME} (HOME): Permission denied; {HOME} belongs to root, mode 0755",
         f"chown li {HOME}"),
        (attempt("folder", HOME, errno.EDQUOT, name="working directory", at=HOME), "cannot-write",
         WARNING,
         f"li cannot write to the working directory {HOME}: the quota on / is used up", ""),
        (attempt("folder", HOME, errno.ENOSPC, name="HOME", at=HOME), "cannot-write", WARNING,
         f"li cannot write to {HOME} (HOME): / has no space left", ""),
        (attempt("rename", number=errno.EPERM), "cannot-write", WARNING,
         "li cannot rename files in /tmp: ", ""),
        (attempt("lock", "/data", errno.ENOLCK), "cannot-lock", WARNING,
         "files in /data cannot be locked: ", ""),
        (attempt("lock", "/data/c", errno.ENOLCK, name="TRITON_CACHE_DIR"), "cannot-lock", WARNING,
         "files in TRITON_CACHE_DIR=/data/c cannot be locked: No locks available",
         "export TRITON_CACHE_DIR=/tmp/li-triton_cache_dir"),
        (attempt("again", number=errno.EACCES), "cannot-write", WARNING,
         "li cannot reopen the files that it creates in /tmp: Permission denied", ""),
        (attempt("many", number=errno.ENOSPC, made=1, count=2), "cannot-write", ERROR,
         "li can create only 1 of the 2 files in /tmp that the job needs to start: / has no space left", ""),
        (attempt("socket", number=errno.EPERM, length=38, added=34), "cannot-write", ERROR,
         "li cannot create a Unix socket in /tmp, which data loaders need: ", ""),
    ],
)  # fmt: skip
def test_refused(refused: Attempt, code: str, severity: Severity, sentence: str, line: str) -> None:
    asked = judged(refused, attempt("temporary"))
    assert asked.codes == [f"trial-files.{code}"]
    (finding,) = asked.findings
    assert finding.severity is severity and finding.message.startswith(sentence)
    assert (finding.fix.commands[-1] if finding.fix and finding.fix.commands else "") == line


@pytest.mark.parametrize("device", [True, False])
def test_torch_reads_random_numbers(device: bool) -> None:
    refused = attempt("device", "/dev/urandom", errno.EACCES if device else errno.ENODEV, device=device)
    (finding,) = judged(refused, packages=("torch",)).findings
    assert finding.severity is ERROR


@pytest.mark.parametrize(("package", "severity"), [("mindspore", ERROR), ("torch", WARNING)])
def test_mindspore_reads_how_much_memory_there_is(package: str, severity: Severity) -> None:
    (finding,) = judged(attempt("proc", "/proc/meminfo", errno.EACCES), packages=(package,)).findings
    assert finding.severity is severity


@pytest.mark.parametrize(
    ("umask", "line"), [(0o177, "umask 0077"), (0o700, "umask 0000"), (0o22, "setfacl -k /tmp")]
)
def test_a_folder_that_shuts_its_owner_out(umask: int, line: str) -> None:
    refused = attempt("own-folder", "/tmp", errno.EACCES, umask=umask)
    (finding,) = judged(refused).findings
    assert finding.weight is ERROR and finding.message.endswith("as multiprocessing does: Permission denied")
    assert finding.fix is not None and finding.fix.commands == (line,)


@pytest.mark.parametrize(("made", "severity"), [(3, ERROR), (4, WARNING)])
def test_data_loaders_take_more_files(made: int, severity: Severity) -> None:
    refused = attempt("many", number=errno.ENOSPC, made=made, count=7)
    (finding,) = judged(refused, packages=("torch",)).findings
    assert finding.severity is severity


def test_what_cannot_be_opened_twice_is_said_once() -> None:
    refused = [
        attempt("again", number=errno.EACCES),
        attempt("socket", number=errno.EACCES, length=38, added=34),
    ]
    (finding,) = judged(attempt("temporary"), *refused).findings
    assert finding.severity is ERROR and "Unix socket" in finding.message


@pytest.mark.parametrize(("packages", "names"), [((), 2), (("torch",), 11)])
def test_as_many_files_as_the_start_takes(packages: tuple[str, ...], names: int) -> None:
    files = {k: v for name in packages for k, v in package_files(name, "2.7.0").items()}
    host = fake_host(files, euid=1000, user="li", variables={"LOCAL_WORLD_SIZE": "2"})
    ask(trial_files, host)
    assert host.trials.asked["files"]["names"] == names  # type: ignore[attr-defined]


def test_no_temporary_folder() -> None:
    asked = judged(
        attempt("temporary", "/gone", errno.ENOENT, name="TMPDIR"), attempt("temporary", number=errno.EROFS)
    )
    (finding,) = asked.findings
    assert finding.severity is ERROR and finding.message == (
        "li has no temporary folder: TMPDIR=/gone cannot be written: it does not exist"
    )
    assert finding.evidence[-1] == "/tmp: / is mounted read-only"


def test_one_place_is_said_once() -> None:
    names = ("HOME", "XDG_CACHE_HOME", "TRITON_CACHE_DIR")
    refused = [attempt("folder", HOME, errno.EROFS, name=name, at=HOME) for name in names]
    (finding,) = judged(attempt("temporary"), *refused).findings
    assert "(HOME, XDG_CACHE_HOME, TRITON_CACHE_DIR)" in finding.message
    assert "identity.home-not-writable" in finding.echo_of


@pytest.mark.parametrize(
    ("soft", "hard", "line"),
    [(0, None, "ulimit -Sf unlimited"), (0, 2 << 30, "ulimit -Sf 2097152"), (0, 0, "")],
)
def test_no_file_may_be_written(soft: int, hard: Optional[int], line: str) -> None:
    everything = [
        attempt(step, number=errno.EFBIG, bytes=1 << 30) for step in ("large", "temporary", "folder")
    ]
    (finding,) = judged(*everything, limits={"Max file size": Limit(soft, hard)}).findings
    assert finding.severity is ERROR
    assert finding.message == "li cannot write a file of 4 KiB: ulimit -f limits files to 0 KiB"
    assert finding.fix is not None and finding.fix.commands == ((line,) if line else ())


def test_no_large_file() -> None:
    facts = {"step": "large", "bytes": 1 << 30}
    refused = Attempt("let a file grow", errno.EFBIG, os.strerror(errno.EFBIG), facts=facts)
    (finding,) = judged(
        refused, attempt("temporary"), limits={"Max file size": Limit(1 << 20, None)}
    ).findings
    assert finding.severity is WARNING
    assert finding.message == "li cannot write a file of 1 GiB: ulimit -f limits files to 1024 KiB"


def sockets(*lengths: int, falls_back: bool = False) -> list[Attempt]:
    """The names of sockets that were too long for /long, and /tmp as the way out."""
    refused = [attempt("socket", "/long", errno.ENAMETOOLONG, length=110, added=added) for added in lengths]
    return [
        attempt("temporary", "/long", name="TMPDIR"),
        *refused,
        attempt("multiprocessing", falls_back=falls_back),
        attempt("instead"),
    ]


OF_PYTHON = "TMPDIR=/long is 78 bytes long: multiprocessing and data loaders cannot create their sockets "
OF_TORCH = "TMPDIR=/long is 76 bytes long: torch's shared memory manager cannot create its socket "


@pytest.mark.parametrize(
    ("attempts", "severity", "sentence"),
    [
        (sockets(34, 32), ERROR, OF_PYTHON),
        (sockets(34), WARNING, OF_TORCH),
        (sockets(34, 32, falls_back=True), WARNING, OF_TORCH),
    ],
)
def test_too_long(attempts: list[Attempt], severity: Severity, sentence: str) -> None:
    asked = judged(*attempts, packages=("torch",))
    assert asked.codes == ["trial-files.path-too-long"]
    (finding,) = asked.findings
    assert finding.severity is severity and finding.message.startswith(sentence)
    assert finding.fix is not None and finding.fix.commands == ("export TMPDIR=/tmp",)


def test_torchs_manager_is_nothing_to_others() -> None:
    assert judged(*sockets(34)).codes == []


@pytest.mark.parametrize(("packages", "codes"), [(("torch",), ["trial-files.cannot-write"]), ((), [])])
def test_noexec_is_for_who_builds_there(packages: tuple[str, ...], codes: list[str]) -> None:
    attempts = (
        attempt("temporary", "/scratch"), attempt("execute", "/scratch", errno.EPERM),
        attempt("folder", HOME, name="HOME"),
    )  # fmt: skip
    asked = judged(*attempts, packages=packages)
    assert asked.codes == codes
    if codes:
        (finding,) = asked.findings
        assert "/scratch: it is mounted with noexec" in finding.message
        assert finding.fix is not None
        assert finding.fix.commands == (f"export TORCHINDUCTOR_CACHE_DIR={HOME}/li-torchinductor_cache_dir",)


def test_what_is_tried() -> None:
    host = fake_host(
        euid=1000, user="li",
        files={**FILES, **package_files("torch", "2.7.0"), **package_files("mindspore", "2.7.0")},
        variables={"HOME": HOME, "ASCEND_PROCESS_LOG_PATH": "/data/log", "ASCEND_CACHE_PATH": "/data/cache"},
    )  # fmt: skip
    ask(trial_files, host)
    asked = host.trials.asked["files"]["folders"]  # type: ignore[attr-defined]
    assert {entry["name"]: (entry["path"], entry["makes"]) for entry in asked} == {
        "working directory": (HOME, False),
        "HOME": (HOME, False),
        "TORCHINDUCTOR_CACHE_DIR": ("torchinductor_li", True),
        "XDG_CACHE_HOME": (f"{HOME}/.cache", True),
        "kernel_meta": (f"{HOME}/kernel_meta", True),
        "ASCEND_PROCESS_LOG_PATH": ("/data/log", True),
        "ASCEND_CACHE_PATH": ("/data/cache", False),
    }


@pytest.mark.parametrize(("value", "wanted"), [("/root", HOME), ("", HOME), ("/scratch", "/scratch")])
def test_the_home_of_the_user_whom_root_names(value: str, wanted: str) -> None:
    options = Options(as_user=Account("li", 1000, 1000, HOME))
    host = fake_host(files=FILES, variables={"HOME": value} if value else {}, options=options)
    ask(trial_files, host)
    asked = host.trials.asked["files"]["folders"]  # type: ignore[attr-defined]
    assert [entry["path"] for entry in asked if entry["name"] == "HOME"] == [wanted]


def test_what_is_below_home_is_said_with_it() -> None:
    below = attempt("folder", f"{HOME}/.triton/cache", errno.EACCES, name="TRITON_CACHE_DIR", at="/home")
    beside = attempt("folder", f"{HOME}2", errno.EACCES, name="XDG_CACHE_HOME", at="/home")
    refused = attempt("folder", HOME, errno.ENOENT, name="HOME")
    asked = judged(attempt("temporary"), refused, below, beside)
    assert [finding.message.partition(")")[0].partition("(")[2] for finding in asked.findings] == [
        "HOME, TRITON_CACHE_DIR",
        "XDG_CACHE_HOME",
    ]


def hanging(host: Host, monkeypatch: pytest.MonkeyPatch, error: CannotTell) -> None:
    """Let no file below /dead be looked at."""
    stat = host.files.stat

    def late(path: str) -> Optional[Entry]:
        if path.startswith("/dead"):
            raise error
        return stat(path)

    monkeypatch.setattr(host.files, "stat", late)


def test_a_folder_that_cannot_be_looked_at_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    host = fake_host(euid=1000, user="li", files=FILES, variables={"HOME": "/dead"})
    hanging(host, monkeypatch, CannotTell("/dead cannot be read"))
    asked = ask(trial_files, host)
    assert asked.status is Status.UNKNOWN and asked.reason == "/dead cannot be read"
    assert [entry["name"] for entry in host.trials.asked["files"]["folders"]] == ["working directory"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("trial", "severities"), [(Trial(), [WARNING]), (Trial(hung="write /tmp"), [WARNING])]
)
def test_a_home_whose_server_is_silent(
    monkeypatch: pytest.MonkeyPatch, trial: Trial, severities: list[Severity]
) -> None:
    host = fake_host(euid=1000, user="li", files=FILES, variables={"HOME": "/dead"}, trials={"files": trial})
    hanging(host, monkeypatch, Silent("/dead does not answer"))
    asked = ask(trial_files, host)
    assert [finding.severity for finding in asked.findings] == severities
    assert asked.findings[0].message == "li cannot write to /dead (HOME): /dead does not answer"
    assert (asked.status is Status.UNKNOWN) is (trial.hung is not None)
    assert [entry["name"] for entry in host.trials.asked["files"]["folders"]] == ["working directory"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("trial", "reason"),
    [
        (Trial(hung="lock /data"), "the trial did not finish in time; it waited in lock /data"),
        (Trial((attempt("temporary", number=errno.EIO),), hung="write /var/tmp"), "waited in write /var/tmp"),
        (Trial((attempt("remover", number=errno.ECHILD),)), "steps that need a file name were skipped"),
    ],
)
def test_no_answer(trial: Trial, reason: str) -> None:
    asked = judged(trial=trial)
    assert asked.status is Status.UNKNOWN and reason in (asked.reason or "") and asked.codes == []


def test_root_is_not_the_job() -> None:
    asked = ask(trial_files, fake_host())
    assert asked.status is Status.SKIPPED and "--as-user" in (asked.reason or "")


def test_an_image_is_not_running() -> None:
    assert ask(trial_files, fake_host(root="/image", euid=1000)).status is Status.SKIPPED


@pytest.mark.parametrize(
    ("packages", "severity"), [(("mindspore",), ERROR), (("mindspore", "torch"), WARNING), ((), WARNING)]
)
def test_msrun_writes_its_logs_where_the_job_starts(packages: tuple[str, ...], severity: Severity) -> None:
    here = attempt("folder", "/job", errno.EACCES, name="working directory")
    (finding,) = judged(attempt("temporary"), here, packages=packages).findings
    assert finding.weight is severity and "the working directory /job" in finding.message


def test_a_log_of_another_users_msrun() -> None:
    asked = judged(attempt("temporary"), attempt("existing", "/job/worker_0.log", errno.EACCES))
    (finding,) = asked.findings
    assert finding.weight is ERROR and "/job/worker_0.log, a log of msrun: " in finding.message
    host = fake_host(euid=1000, user="li", files={**FILES, **package_files("mindspore", "2.7.0")})
    ask(trial_files, host)
    asked_of = host.trials.asked["files"]["existing"]  # type: ignore[attr-defined]
    assert asked_of == [f"{HOME}/scheduler.log", f"{HOME}/worker_0.log"]


@pytest.mark.parametrize(
    ("folder", "error", "codes"),
    [
        ("/dead", Silent("/dead does not answer"), ["trial-files.cannot-write"]),
        ("/dead", CannotTell("/dead cannot be read"), []),
        ("/slow", Silent("/dead does not answer"), []),  # it may only be late
    ],
)
def test_a_temporary_folder_in_which_the_trial_waits(
    monkeypatch: pytest.MonkeyPatch, folder: str, error: CannotTell, codes: list[str]
) -> None:
    variables = {"TMPDIR": folder}
    trials = {"files": Trial(hung=f"write {folder}")}
    host = fake_host(euid=1000, user="li", files=FILES, variables=variables, trials=trials)
    hanging(host, monkeypatch, error)
    asked = ask(trial_files, host)
    assert asked.codes == codes and asked.status is Status.UNKNOWN
    assert [finding.severity for finding in asked.findings] == [ERROR] * len(codes)


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield judged(attempt("device", "/dev/null", errno.ENOENT), attempt("device", "/dev/zero", errno.EACCES))
    yield judged(attempt("device", "/dev/null", errno.ENODEV, device=False))
    yield judged(attempt("terminal", "/dev/ptmx", errno.ENOSPC), attempt("terminal", "/dev/ptmx", errno.EIO))
    for number in (
        errno.EROFS,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EACCES,
        errno.EIO,
    ):
        yield judged(attempt("temporary", "/tmp", number, name=""))
        refused = attempt("temporary", "/scratch", number, name="TMPDIR")
        yield judged(refused, attempt("temporary"), attempt("rename", "/tmp", number))
        yield judged(attempt("temporary"), attempt("folder", HOME, number, name="HOME"))
    everything = attempt("temporary", "/tmp", errno.EFBIG, name="")
    for hard in (0, None):
        yield judged(everything, limits={"Max file size": Limit(0, hard)})
    yield judged(attempt("temporary"), attempt("large", "/dev/shm", errno.EFBIG, bytes=1 << 30))
    yield judged(*sockets(34, 32), packages=("torch",))
    yield judged(*sockets(34), packages=("torch",))
    yield judged(attempt("temporary", name=""), attempt("socket", "/tmp", errno.EPERM))
    yield judged(attempt("temporary"), attempt("execute", "/scratch", errno.EACCES), packages=("torch",))
    for name in ("working directory", "XDG_CACHE_HOME", "CANN log"):
        yield judged(attempt("temporary"), attempt("folder", "/job", errno.EACCES, name=name))
        yield judged(attempt("temporary"), attempt("lock", "/job", errno.ENOLCK, name=name))
    yield judged(attempt("temporary"), attempt("existing", "/job/worker_0.log", errno.EACCES))
    yield judged(attempt("remover", "", errno.ECHILD))
    yield judged(trial=Trial(hung="write /tmp"))
    yield ask(trial_files, fake_host())
