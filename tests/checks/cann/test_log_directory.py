"""log-directory: CANN's logs can be written where they go."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.checks.cann.driver_machine import asked, cann
from tests.support.ipc import unshare
from tests.support.others import forked

from npudoctor import Severity, Status
from npudoctor.checks.cann.log_directory import log_directory
from npudoctor.host import Host, Options
from npudoctor.host.users.identity import Identity
from npudoctor.testing import Asked, Content, ask, fake_host, folder, link, unreadable

HOME = "/home/alice"
ALICE: dict[str, Any] = {"euid": 1000, "user": "alice"}
OWN_HOME: dict[str, Content] = {HOME: folder(0o700, 1000)}


def crowded(count: int, where: str = f"{HOME}/ascend/log") -> dict[str, Content]:
    """A folder of logs with so many files."""
    return {
        where: folder(0o750, 1000),
        f"{where}/plog": folder(0o750, 1000),
        **{f"{where}/plog/plog-{number}_1.log": "" for number in range(count)},
    }


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield asked(log_directory, **ALICE)
    yield asked(log_directory, cann(), {**OWN_HOME, f"{HOME}/ascend": folder()}, **ALICE)
    yield asked(log_directory, cann(), {**OWN_HOME, f"{HOME}/ascend": ""}, **ALICE)
    closed: dict[str, Content] = {"/closed": unreadable()}
    for path in ("/var/log/npu", "logs", "/closed/log"):
        yield asked(
            log_directory, cann(), OWN_HOME, closed, variables={"ASCEND_PROCESS_LOG_PATH": path}, **ALICE
        )
    yield asked(log_directory, cann(), OWN_HOME, crowded(20_001), **ALICE)
    mounted: dict[str, Content] = {"/proc/self/mountinfo": "21 1 8:1 / / ro - overlay overlay ro\n"}
    yield asked(log_directory, cann(), OWN_HOME, mounted, **ALICE)
    mounted = {"/proc/self/mountinfo": "21 1 0:40 / / rw - nfs4 server:/root rw\n"}
    yield asked(log_directory, cann(), mounted)


OWN, WORK = "ASCEND_PROCESS_LOG_PATH", "ASCEND_WORK_PATH"
LOG = f"{HOME}/ascend/log"


def alice(files: dict[str, Content], **variables: str) -> Asked:
    more: dict[str, Any] = ALICE
    return asked(log_directory, cann(), {**OWN_HOME, **files}, variables=variables, **more)


@pytest.mark.parametrize(
    ("files", "variables", "path", "source"),
    [
        ({}, {}, LOG, "HOME"),
        ({LOG: folder(0o750, 1000)}, {}, LOG, "HOME"),
        ({"/data": folder(0o777)}, {OWN: "/data/log/", WORK: "/nowhere"}, "/data/log/", OWN),
        ({"/data": folder(0o775)}, {WORK: "/data"}, "/data", WORK),
        ({"/data": folder(0o700, 1000), "/log": link("/data")}, {OWN: "/log"}, "/log", OWN),
        ({}, {"HOME": "/home/alice", OWN: ""}, LOG, "HOME"),
    ],
)
def test_quiet(files: dict[str, Content], variables: dict[str, str], path: str, source: str) -> None:
    told = alice(files, **variables)
    assert (told.status, told.codes) == (Status.OK, [])
    assert told.facts == {"path": path, "from": source}


def test_a_folder_that_root_made() -> None:
    for place in (f"{HOME}/ascend", LOG, f"{LOG}/debug", f"{LOG}/debug/plog"):
        made = {path: folder(0o750, 1000) for path in (f"{HOME}/ascend", LOG, f"{LOG}/debug") if path < place}
        (finding,) = alice({**made, place: folder()}).findings
        assert (finding.code, finding.severity) == ("log-directory.not-writable", Severity.WARNING)
        assert f"alice cannot write to {place}" in finding.message
        assert finding.fix is not None
        assert finding.fix.commands == (f"chown -R 1000 {place}",)
        assert finding.fix.undo == (f"chown -R 0 {place}",)


def test_a_variable_that_names_another_place() -> None:
    (finding,) = alice({}, **{OWN: "/var/log/npu"}).findings
    assert finding.code == "log-directory.not-writable"
    assert finding.fix is not None
    assert finding.fix.commands == (f"export {OWN}={LOG}",)
    assert finding.fix.undo == (f"export {OWN}=/var/log/npu",)
    (finding,) = alice({}, **{WORK: "/var/work"}).findings
    assert finding.fix is not None
    assert finding.fix.undo == (f"unset {OWN}",)


def test_no_line_that_would_take_what_is_not_the_users() -> None:
    for home in (folder(0o755), folder(0o500, 1000)):
        told = alice({HOME: home}, **{OWN: "/var/log/npu"})
        assert (told.codes, told.findings[0].fix) == (["log-directory.not-writable"], None)
    told = alice({HOME: folder(0o755), f"{HOME}/ascend": folder()})
    assert told.findings[0].fix is None
    host = fake_host(cann(), euid=4711)
    host.identity = Identity(4711, "4711", "/")
    (finding,) = ask(log_directory, host).findings
    assert (finding.code, finding.fix) == ("log-directory.not-writable", None)


CAUSES = ("identity.home-missing", "identity.home-not-writable")


@pytest.mark.parametrize(
    ("home", "echo_of"),
    [
        ({HOME: folder(0o755)}, CAUSES),
        ({HOME: folder(0o755, 1000), f"{HOME}/ascend": folder()}, ()),
        ({HOME: ""}, CAUSES),
        ({"/home": folder()}, CAUSES),
        ({HOME: folder(0o755, 1000), f"{HOME}/ascend": ""}, ()),
    ],
)
def test_what_is_wrong_with_home_is_the_cause(home: dict[str, Content], echo_of: tuple[str, ...]) -> None:
    (finding,) = asked(log_directory, cann(), home, variables={"HOME": HOME}, **ALICE).findings
    assert finding.echo_of == echo_of


def test_a_home_that_nobody_knows_is_the_cause() -> None:
    host = fake_host(cann(), euid=4711)
    host.identity = Identity(4711, "4711", "/")
    (finding,) = ask(log_directory, host).findings
    assert finding.echo_of == ("identity.home-unset", *CAUSES)
    relative = alice({}, HOME="ann").findings
    assert [(one.code, one.echo_of[-1]) for one in relative] == [("log-directory.relative", CAUSES[0])]
    elsewhere = alice({}, HOME="/gone", **{OWN: "/var/log/npu"})
    assert elsewhere.findings[0].echo_of == ()


def test_a_folder_that_the_user_may_not_enter() -> None:
    told = alice({"/data": unreadable(errno.EACCES)}, **{OWN: "/data/log"})
    assert told.codes == ["log-directory.not-writable"]
    assert "cannot enter" in told.findings[0].message


STATUS = "Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{uid}\t{uid}\t{uid}\t{uid}\nGroups:\t\n"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({f"{HOME}/ascend/log": folder()}, "cannot write to"),
        ({HOME: folder(0o700), f"{HOME}/ascend": folder(0o777)}, "cannot enter it"),
        ({}, ""),
    ],
)
def test_root_judges_for_the_user_of_the_job(entries: dict[str, Content], said: str) -> None:
    """--env-of: what root may do in alice's home does not help her job."""
    passwd = {
        "/etc/passwd": f"alice:x:1000:1000::{HOME}:/bin/sh\n",
        "/proc/7/status": STATUS.format(uid=1000),
    }
    options = Options(env_of=7)
    told = asked(log_directory, cann(), {**OWN_HOME, **passwd, **entries}, options=options)
    assert told.codes == (["log-directory.not-writable"] if said else [])
    assert told.facts["path"] == LOG
    assert all(said in finding.message for finding in told.findings)


READ_ONLY = "21 1 8:1 / / {own} - overlay overlay {of_all}\n"


@pytest.mark.parametrize(("own", "of_all"), [("ro,relatime", "rw"), ("rw,relatime", "ro")])
def test_a_root_that_is_read_only(own: str, of_all: str) -> None:
    """A pod with readOnlyRootFilesystem."""
    table = READ_ONLY.format(own=own, of_all=of_all)
    for uid in (ALICE, {}):
        told = asked(log_directory, cann(), {**OWN_HOME, "/proc/self/mountinfo": table}, **dict(uid))
        (finding,) = told.findings
        assert (finding.code, finding.fix) == ("log-directory.not-writable", None)
        assert "/ is mounted read-only" in finding.message


def test_what_a_server_lets_root_do_cannot_be_told() -> None:
    table = "21 1 0:40 / / rw - nfs4 server:/root rw\n"
    told = asked(log_directory, cann(), {"/proc/self/mountinfo": table})
    assert (told.status, told.advisory) == (Status.UNKNOWN, True)


@pytest.mark.needs_root
def test_a_real_mount(tmp_path: Path) -> None:
    """In a namespace of its own: a tmpfs that root may not write."""

    def answer() -> list[str]:
        unshare("mnt")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(tmp_path)], check=True)
        return ask(log_directory, Host(variables={OWN: str(tmp_path)})).codes

    assert forked(answer) == ["log-directory.not-writable"]


def test_root_may_write_everywhere() -> None:
    assert asked(log_directory, cann(), variables={OWN: "/var/log/npu"}).codes == []


def test_no_directory_and_no_absolute_path() -> None:
    assert alice({f"{HOME}/ascend": "a file"}).codes == ["log-directory.no-directory"]
    assert alice({}, **{OWN: "log"}).codes == ["log-directory.relative"]


def test_many_files() -> None:
    assert alice(crowded(100)).codes == []
    told = alice(crowded(20_001))
    assert (told.status, told.codes) == (Status.OK, ["log-directory.many-files"])


def test_skipped(tmp_path: Path) -> None:
    assert asked(log_directory).status is Status.SKIPPED
    told = ask(log_directory, Host(Options(root=str(tmp_path)), variables={OWN: "/x"}))
    assert (told.status, told.reason) == (Status.SKIPPED, "an image is not running")


def test_cannot_tell() -> None:
    told = alice({"/data": unreadable(errno.EIO)}, **{OWN: "/data/log"})
    assert (told.status, told.advisory) == (Status.UNKNOWN, False)
    assert "/data" in told.reason


def test_real_folders(tmp_path: Path) -> None:
    (tmp_path / "ascend").mkdir(mode=0o755)
    somebody = Identity(os.geteuid() + 4711, "somebody", str(tmp_path))
    told = ask(log_directory, Host(variables={OWN: str(tmp_path / "ascend/log")}, identity=somebody))
    assert told.codes == ["log-directory.not-writable"]
    mine = ask(log_directory, Host(variables={OWN: str(tmp_path / "ascend/log")}))
    assert (mine.status, mine.codes) == (Status.OK, [])
    assert os.listdir(tmp_path / "ascend") == []
