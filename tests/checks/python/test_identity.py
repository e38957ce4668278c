"""identity: the name of the user, and a home that is there, writable and its own."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.python.identity import identity
from npudoctor.checks.python.identity import identity as check
from npudoctor.core.errors import Silent
from npudoctor.host import Host, Options
from npudoctor.host.users.identity import Identity
from npudoctor.testing import Asked, Content, Node, ask, fake_host, folder, unreadable

WARNING, INFO = Severity.WARNING, Severity.INFO
USERS = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/bash\nbob:x:1001:1001::/home/bob:\n"
MACHINE: dict[str, Content] = {
    "/etc/passwd": USERS,
    "/root": folder(0o700),
    "/home/ann": folder(0o700, 1000),
    "/home/bob": folder(0o755, 1001),
    "/home/all": folder(0o777, 1001),
    "/home/team": Node(kind=stat.S_IFDIR, permissions=0o770, uid=0, gid=50),
    "/tmp": folder(0o1777),
    "/home/file": "",
}


def told(uid: int, user: str, /, files: Any = None, **variables: str) -> Asked:
    more: dict[str, Content] = files or {}
    host = fake_host({**MACHINE, **more}, variables=variables)
    host.identity = Identity(uid, user, "/var/empty", frozenset(), frozenset((uid, 50)))
    return ask(identity, host)


@pytest.mark.parametrize(
    ("uid", "user", "home"),
    [
        (0, "root", "/root"),
        (1000, "ann", "/home/ann"),
        (1000, "ann", "/home/ann/"),
        (1000, "ann", "/home/team"),
        (1000, "ann", "/tmp"),
        (5000, "known.elsewhere", "/tmp"),
    ],
)
def test_quiet_when_well(uid: int, user: str, home: str) -> None:
    asked = told(uid, user, HOME=home)
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts == {"uid": uid, "name": user, "home": home}


def test_no_name_at_all() -> None:
    (finding,) = told(4711, "4711", HOME="/tmp").findings
    assert (finding.code, finding.severity) == ("identity.no-passwd-entry", WARNING)
    assert "getpass.getuser() fails" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == ("export USER=4711",)


@pytest.mark.parametrize("name", ["USER", "LOGNAME"])
def test_a_name_in_the_variables_only(name: str) -> None:
    (finding,) = told(4711, "4711", HOME="/tmp", **{name: "ann"}).findings
    assert (finding.code, finding.severity) == ("identity.no-passwd-entry", INFO)
    assert f"{name}=ann" in finding.message


@pytest.mark.parametrize("variables", [{}, {"HOME": ""}])
def test_home_is_not_set(variables: dict[str, str]) -> None:
    (finding,) = told(1000, "ann", **variables).findings
    assert (finding.code, finding.severity) == ("identity.home-unset", INFO)
    assert finding.fix is not None
    assert finding.fix.commands == ("export HOME=/home/ann",)
    findings = told(4711, "4711", USER="x", **variables).findings
    assert [(one.code, one.severity) for one in findings][1] == ("identity.home-unset", WARNING)


@pytest.mark.parametrize("home", ["/nonexistent", "/home/file", "home/ann"])
def test_home_is_no_folder(home: str) -> None:
    (finding,) = told(1000, "ann", HOME=home).findings
    assert (finding.code, finding.severity) == ("identity.home-missing", WARNING)
    assert finding.fix is not None
    assert finding.fix.commands == ("export HOME=/home/ann",)
    assert finding.fix.undo == (f"export HOME={home}",)


def test_root_can_make_its_home() -> None:
    (finding,) = told(0, "root", HOME="/data/root").findings
    assert (finding.code, finding.severity) == ("identity.home-missing", INFO)


@pytest.mark.parametrize("home", ["/", "/root", "/home/bob"])
def test_home_cannot_be_written(home: str) -> None:
    (finding,) = told(1000, "ann", HOME=home).findings
    assert (finding.code, finding.severity) == ("identity.home-not-writable", WARNING)
    assert "mode 0" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == ("export HOME=/home/ann",)


@pytest.mark.parametrize(("uid", "user", "home"), [(0, "root", "/home/ann"), (1000, "ann", "/home/all")])
def test_home_of_another(uid: int, user: str, home: str) -> None:
    (finding,) = told(uid, user, HOME=home).findings
    assert (finding.code, finding.severity) == ("identity.home-of-another", INFO)


def test_a_container_with_a_bare_user_id() -> None:
    asked = told(4711, "4711", HOME="/")
    assert asked.codes == ["identity.no-passwd-entry", "identity.home-not-writable"]
    assert asked.findings[1].fix is None, "there is no better home"


def test_the_user_of_the_examined_process() -> None:
    """Root looks at a job of ann's: it is her home and her name that count."""
    status = "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t50 \n"
    for home, codes in (("/home/ann", []), ("/home/team", []), ("/home/bob", ["identity.home-not-writable"])):
        host = fake_host({**MACHINE, "/proc/7/status": status}, variables={"HOME": home})
        host.options = Options(env_of=7)
        asked = ask(identity, host)
        assert (asked.facts["uid"], asked.codes) == (1000, codes)
    host = fake_host(MACHINE, variables={"HOME": "/home/ann"})
    host.options = Options(env_of=8)
    assert ask(identity, host).status is Status.UNKNOWN


def test_skipped_in_an_image() -> None:
    assert ask(identity, fake_host(root="/srv/image")).status is Status.SKIPPED


def test_cannot_tell_when_it_cannot_look() -> None:
    files: dict[str, Content] = {"/home/dead": unreadable(errno.EIO)}
    assert told(1000, "ann", files, HOME="/home/dead").status is Status.UNKNOWN


def test_a_passwd_that_cannot_be_read_names_nobody_wrongly() -> None:
    files: dict[str, Content] = {"/etc/passwd": unreadable()}
    assert told(1000, "ann", files, HOME="/home/ann").codes == []


def test_a_real_folder(tmp_path: Path) -> None:
    """By the modes of a real disk; root may write all."""
    host = Host(variables={"HOME": str(tmp_path), "USER": "x"})
    host.identity = Identity(os.geteuid() + 1, "x", "/", frozenset(), frozenset())
    tmp_path.chmod(0o700)
    assert ask(identity, host).codes == ["identity.home-not-writable"]
    host.close()
    host = Host(variables={"HOME": str(tmp_path), "USER": "x"})
    assert "identity.home-not-writable" not in ask(identity, host).codes
    host.close()


SCENE_MACHINE: dict[str, Content] = {
    "/etc/passwd": "ann:x:1000:1000::/home/ann:/bin/bash\n",
    "/home/ann": folder(0o700, 1000),
    "/home/all": folder(0o777, 1001),
}
CASES: tuple[tuple[int, dict[str, str]], ...] = (
    (4711, {}),
    (4711, {"USER": "ann", "HOME": "/home/ann"}),
    (1000, {}),
    (1000, {"HOME": "/gone"}),
    (1000, {"HOME": "/home/all"}),
)


def scene(tmp: Path) -> Iterator[Asked]:
    """Without a name, without a home, with a home that is not there or not one's own."""
    for uid, variables in CASES:
        host = fake_host(SCENE_MACHINE, variables=variables)
        host.identity = Identity(uid, "ann" if uid == 1000 else str(uid), "/")
        yield ask(check, host)


def test_a_home_whose_server_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some jobs never look at it; what the others do, the trial tells."""
    host = fake_host(euid=1000, user="ann", variables={"HOME": "/far"})
    monkeypatch.setattr(host.files, "stat", Mock(side_effect=Silent("/far does not answer")))
    asked = ask(check, host)
    assert (asked.status, asked.codes) == (Status.PROBLEM, ["identity.home-not-writable"])
    assert asked.findings[0].message.endswith("/far does not answer") and asked.findings[0].weight is WARNING


def test_a_home_whose_server_is_gone() -> None:
    asked = told(1000, "ann", files={"/far": unreadable(errno.ENOTCONN)}, HOME="/far")
    assert (asked.status, asked.codes) == (Status.PROBLEM, ["identity.home-not-writable"])
    assert "Transport endpoint is not connected" in asked.findings[0].message
    assert asked.findings[0].weight is WARNING
