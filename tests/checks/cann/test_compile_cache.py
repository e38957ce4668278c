"""compile-cache: caches can be used, and no dead build locks them."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.checks.cann.driver_machine import cann

from npudoctor import RemoveUnused, Risk, Severity, Status
from npudoctor.checks.cann.compile_cache import compile_cache
from npudoctor.host import Host, Options
from npudoctor.testing import Asked, Content, Node, ask, fake_host, folder, link, process_files, unreadable

NOW = 1_800_000_000.0
CACHE = "/data/cache"
LOCK = f"{CACHE}/add/build.lock"
LOCAL = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
NFS = "22 21 0:40 / /data rw - {kind} server:/data rw,vers={vers},{more}\n"


def lock(age: float = 7200.0, path: str = LOCK) -> dict[str, Content]:
    """The empty file of a build that began so long ago."""
    return {path: Node(permissions=0o600, mtime=NOW - age)}


def judged(files: dict[str, Content], table: str = LOCAL, **more: Any) -> Asked:
    """The answer where these files and mounts are; by default MindSpore's cache is in CACHE."""
    more.setdefault("variables", {"MS_COMPILER_CACHE_PATH": CACHE})
    around: dict[str, Content] = {"/proc/self/mountinfo": table, **process_files(1, "systemd", parent=0)}
    return ask(compile_cache, fake_host({**around, **files}, now=NOW, **more))


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield judged({}, variables={})
    yield judged(lock())
    yield judged(lock(60))
    yield judged({**lock(), **process_files(70, descriptors={3: LOCK})})
    for path in (CACHE, "cache", "/gone"):
        table = LOCAL + NFS.format(kind="nfs", vers="3", more="hard")
        yield judged({CACHE: folder()}, table, variables={"ASCEND_CACHE_PATH": path})
    yield judged({CACHE: folder()}, euid=1000, user="alice")
    yield judged({"/data": unreadable()}, euid=1000, user="alice")
    yield judged({CACHE: folder()}, LOCAL + "22 21 0:40 / /data ro - tmpfs tmpfs ro\n")
    yield judged({CACHE: folder()}, LOCAL + NFS.format(kind="nfs4", vers="4.2", more="hard"))
    yield judged(lock(-60))


ACL, ASCEND, MINDSPORE = "ACL_OP_COMPILER_CACHE_DIR", "ASCEND_CACHE_PATH", "MS_COMPILER_CACHE_PATH"


def test_quiet() -> None:
    built: dict[str, Content] = {f"{CACHE}/add/add.so": "", f"{CACHE}/build.lock": ""}
    assert judged(built).codes == []
    assert judged({}).codes == []  # MindSpore makes it
    both = {ACL: "/data/acl", ASCEND: "/gone", MINDSPORE: CACHE}
    told = judged({}, variables=both)
    assert (told.codes, told.facts) == ([], {"caches": ["/data/acl", CACHE]})


def test_a_lock_whose_builder_died() -> None:
    told = judged({**lock(), **process_files(70, descriptors={3: f"{CACHE}/other/build.lock"})})
    (finding,) = told.findings
    assert (finding.code, finding.severity) == ("compile-cache.stale-lock", Severity.WARNING)
    assert "120 minutes" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == (f"rm -- {LOCK}",)
    assert finding.fix.risk is Risk.SAFE and isinstance(finding.fix.steps[0], RemoveUnused)
    (elsewhere,) = judged(lock(), LOCAL.replace(" ext4 ", " overlay ")).findings
    assert elsewhere.code == finding.code and elsewhere.fix is not None
    assert elsewhere.fix.risk is Risk.MANUAL, "a lease proves nothing there"


HELD = process_files(70, descriptors={3: LOCK})
HIDDEN: dict[str, Content] = {**process_files(70), "/proc/70/fd": unreadable(errno.EACCES)}
OTHERS: dict[str, Content] = {**process_files(70, uid=7), "/proc/70/fd": unreadable(errno.EACCES)}
MOUNTED = LOCAL + NFS.format(kind="nfs4", vers="4.2", more="hard")


@pytest.mark.parametrize(
    ("files", "table"),
    [
        (lock(60), LOCAL),
        ({**lock(), **HELD}, LOCAL),
        ({**lock(), **process_files(70, descriptors={3: f"{CACHE}/add"})}, LOCAL),
        ({**lock(), **HIDDEN}, LOCAL),
        ({**lock(), "/.dockerenv": ""}, LOCAL),
        (lock(), MOUNTED),
        ({LOCK: Node(b"not empty", mtime=1.0)}, LOCAL),
        (lock(), ""),
    ],
)
def test_a_lock_that_is_only_named(files: dict[str, Content], table: str) -> None:
    told = judged(files, table)
    # What a server lets root do is not known.
    status = Status.UNKNOWN if table == MOUNTED else Status.OK
    assert (told.status, told.codes) == (status, ["compile-cache.lock"])
    assert told.findings[0].fix is None


def test_a_lock_of_the_future() -> None:
    told = judged(lock(-10800))
    assert told.codes == ["compile-cache.lock"]
    assert "dated in the future" in told.findings[0].message and "-" not in told.findings[0].message[40:]


def test_processes_of_others_need_not_be_seen() -> None:
    assert judged({**lock(), **OTHERS}).codes == ["compile-cache.stale-lock"]


def test_without_the_variable_it_lies_where_the_job_is_started() -> None:
    place = "/job/one/kernel_meta/add/build.lock"
    assert judged(lock(path=place), variables={"PWD": "/job/one"}).codes == ["compile-cache.stale-lock"]
    assert judged(lock(path=place), variables={"PWD": "/job"}).status is Status.SKIPPED
    # Where the process is counts, not what a shell once wrote down; cron writes nothing.
    here: dict[str, Content] = {**lock(path=place), "/proc/self/cwd": link("/job/one")}
    for variables in ({}, {"PWD": "/job"}):
        assert judged(here, variables=variables).codes == ["compile-cache.stale-lock"]


def test_a_folder_of_root_where_the_job_is_started() -> None:
    files: dict[str, Content] = {"/job/kernel_meta": folder(), "/proc/self/cwd": link("/job")}
    told = judged(files, variables={}, euid=1000, user="alice")
    assert told.codes == ["compile-cache.not-writable"]
    # It is the root folder that containers start in.
    files = {"/kernel_meta": folder(), "/proc/self/cwd": link("/")}
    assert judged(files, variables={}, euid=1000, user="alice").codes == ["compile-cache.not-writable"]


def test_ascend_cache_path_must_exist() -> None:
    assert judged({}, variables={ASCEND: "/data/gone"}).codes == ["compile-cache.missing"]
    assert judged({"/data/there": folder()}, variables={ASCEND: "/data/there"}).codes == []
    assert judged({}, variables={ASCEND: "cache"}).codes == ["compile-cache.relative"]


@pytest.mark.parametrize(
    ("entry", "codes"),
    [
        (folder(), ["compile-cache.not-writable"]),
        (folder(0o555, 1000), ["compile-cache.not-writable"]),
        (folder(0o775), []),
        (folder(0o1777), []),
        (folder(0o700, 1000), []),
    ],
)
def test_who_may_write(entry: Node, codes: list[str]) -> None:
    for name in (ACL, ASCEND, MINDSPORE):
        told = judged({CACHE: entry}, variables={name: CACHE}, euid=1000, user="alice")
        assert told.codes == codes


def test_a_folder_that_this_user_may_not_enter() -> None:
    files: dict[str, Content] = {"/root": unreadable(errno.EACCES)}
    told = judged(files, variables={ACL: "/root/cache"}, euid=65534, user="nobody")
    assert (told.status, told.codes) == (Status.PROBLEM, ["compile-cache.not-writable"])
    assert "nobody cannot enter the compile cache /root/cache" in told.findings[0].message


STATUS = "Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{uid}\t{uid}\t{uid}\t{uid}\nGroups:\t\n"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({CACHE: folder()}, "cannot write to"),
        ({CACHE: folder(0o777), "/data": folder(0o700)}, "cannot enter"),
        ({CACHE: folder(0o700, 65534)}, ""),
    ],
)
def test_root_judges_for_the_user_of_the_job(entries: dict[str, Content], said: str) -> None:
    """--env-of: root's own rights are not the job's."""
    files: dict[str, Content] = {**entries, "/proc/7/status": STATUS.format(uid=65534)}
    told = judged(files, variables={ACL: CACHE}, options=Options(env_of=7))
    assert told.codes == (["compile-cache.not-writable"] if said else [])
    assert all(said in finding.message for finding in told.findings)


def test_mounted_read_only() -> None:
    for table in ("22 21 0:40 / /data ro - tmpfs tmpfs rw\n", "22 21 8:2 / /data rw - ext4 /dev/sdb ro\n"):
        told = judged({CACHE: folder(0o777)}, LOCAL + table)
        assert told.codes == ["compile-cache.not-writable"]
        assert "/data is mounted read-only" in told.findings[0].message


def test_what_a_server_lets_root_do_cannot_be_told() -> None:
    table = LOCAL + NFS.format(kind="nfs4", vers="4.2", more="hard")
    for entry, status in ((folder(), Status.UNKNOWN), (folder(0o1777), Status.OK)):
        told = judged({CACHE: entry}, table)
        assert (told.status, told.codes, told.advisory) == (status, [], status is Status.UNKNOWN)


def test_the_usual_place_of_another_owner() -> None:
    files: dict[str, Content] = {**cann(), "/home/alice/atc_data": folder(0o700)}
    told = judged(files, variables={}, euid=1000, user="alice")
    assert told.codes == ["compile-cache.not-writable"]
    assert "alice cannot write" in told.findings[0].message


@pytest.mark.parametrize(
    ("kind", "vers", "more", "codes"),
    [
        ("nfs", "3", "hard", ["compile-cache.no-file-locks"]),
        ("nfs", "3", "nolock", ["compile-cache.no-file-locks"]),
        ("nfs4", "4.1", "local_lock=all", ["compile-cache.no-file-locks"]),
        ("nfs4", "4.1", "local_lock=none", []),
    ],
)
def test_network_mounts(kind: str, vers: str, more: str, codes: list[str]) -> None:
    table = LOCAL + NFS.format(kind=kind, vers=vers, more=more)
    assert judged({CACHE: folder()}, table, variables={ASCEND: CACHE}).codes == codes


def test_skipped(tmp_path: Path) -> None:
    assert judged({}, variables={}).status is Status.SKIPPED
    told = ask(compile_cache, Host(Options(root=str(tmp_path)), variables={MINDSPORE: "/x"}))
    assert (told.status, told.reason) == (Status.SKIPPED, "an image is not running")


def test_a_home_that_is_another_users() -> None:
    files: dict[str, Content] = {**cann(), "/home/alice": unreadable(errno.EACCES)}
    assert judged(files, variables={"PWD": "/home/alice"}, euid=1000, user="alice").status is Status.SKIPPED


def test_cannot_tell() -> None:
    assert judged({CACHE: unreadable(errno.EIO)}).status is Status.UNKNOWN
    assert judged({"/proc/self/mountinfo": unreadable(errno.EACCES)}).status is Status.UNKNOWN


def test_a_real_lock_held_by_a_real_process(tmp_path: Path) -> None:
    path = tmp_path / "add" / "build.lock"
    path.parent.mkdir()
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL, 0o600)
    os.utime(path, (time.time() - 7200,) * 2)
    try:
        told = ask(compile_cache, Host(variables={MINDSPORE: str(tmp_path)}))
        assert told.codes == ["compile-cache.lock"]
    finally:
        os.close(descriptor)
    assert path.exists()
