"""cache-server where somebody filled their places with junk: it hides nothing and takes no time."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.machine import PORT, Machine, gone
from tests.support.over import mount_over

from npudoctor import Risk
from npudoctor.facts.leftovers import cache_server as cacheserver
from npudoctor.facts.leftovers.cache_server import (
    EACH,
    LOGINS,
    OTHERS,
    find_places,
    limit_by_owner,
    socket_files,
)

SOMEBODY = 61234
# In a mount namespace of its own: what two ordinary users put into /tmp, and one dead socket of root's.
JUNK = """
import os, socket
os.umask(0)
os.mkdir("/tmp/mindspore", 0o1777)
def things(uid, sockets, folders, links):
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)
    os.setresuid(uid, uid, uid)
    os.mkdir(f"/tmp/mindspore/{uid}", 0o755)
    for number in range(sockets):
        path = f"/tmp/mindspore/{uid}/cache_server_p{number}"
        os.mknod(path, 0o140600)
        os.utime(path, (1, 1))
    for number in range(folders):
        os.mkdir(f"/tmp/mindspore/{uid}-{number}")
    for number in range(links):
        os.symlink("/", f"/tmp/mindspore/{uid}-link-{number}")
    os._exit(0)
things(61234, 20000, 1000, 5)
things(61235, 2, 0, 0)
with socket.socket(socket.AF_UNIX) as server:
    server.bind("/tmp/cache_server_p50052")
os.utime("/tmp/cache_server_p50052", (1, 1))
"""
LINE = """
set -e
{over}
{python} -c '{junk}' || exit 99
set +e
{python} -m npudoctor check cache-server --expect none --format json >&3
{python} -m npudoctor fix cache-server.orphan-socket --yes --format json >&4
"""


@pytest.fixture
def told(tmp_path: object) -> tuple[Mapping[str, Any], ...]:
    """What `check` and then `fix` answer as root beside the junk."""
    report, fixed = f"{tmp_path}/report", f"{tmp_path}/fixed"
    line = LINE.format(
        over=mount_over("/tmp", "mode=1777,nr_inodes=0"), python=shlex.quote(sys.executable), junk=JUNK
    )
    started = time.monotonic()
    subprocess.run(
        ["unshare", "-m", "-i", "bash", "-c", f"exec 3>{report} 4>{fixed}\n{line}"], timeout=100, check=False
    )
    assert time.monotonic() - started < 60
    return tuple(json.loads(open(path, encoding="utf-8").read()) for path in (report, fixed))


@pytest.mark.needs_root
def test_junk_of_others_hides_nothing(told: tuple[Mapping[str, Any], ...]) -> None:
    report, fixed = told
    (row,) = report["results"]
    assert (row["status"], report["verdict"]) == ("problem", "ready")
    messages = {finding["message"]: finding for finding in row["findings"]}
    own, *single = sorted(message for message in messages if message.startswith("a dead cache server"))
    assert own == "a dead cache server left its socket /tmp/cache_server_p50052"
    assert single == [
        f"a dead cache server left its socket /tmp/mindspore/61235/cache_server_p{n}" for n in (0, 1)
    ]
    (many,) = (message for message in messages if message.startswith("dead cache servers"))
    assert many.startswith(f"dead cache servers left {EACH} sockets of user 61234: /tmp/mindspore/61234/")
    assert len(messages[many]["fix"]["commands"]) == 100
    beyond = 20000 - EACH + (1001 - LOGINS) + 5
    assert f"{beyond} more sockets, folders and links named like a cache server's" in " ".join(messages)
    assert len(messages) == 5
    done = {tuple(action["commands"]): action["status"] for action in fixed["actions"]}
    assert [status for lines, status in done.items() if "/tmp/cache_server_p50052" in lines[0]] == ["applied"]
    assert sorted(done.values()) == ["applied", "refused", "refused", "refused"]


def test_of_each_other_owner_so_many() -> None:
    own = os.geteuid()
    things = {f"{uid}-{number}": uid for uid in (7001, own, 7002) for number in range(5)}
    kept, passed = limit_by_owner(things, 3)
    assert [thing.partition("-")[0] for thing in kept] == [str(own)] * 5 + ["7001"] * 3 + ["7002"] * 3
    assert passed == {7001: 2, 7002: 2}


def test_of_all_others_together_so_many() -> None:
    things = {str(uid): uid for uid in range(7000, 7000 + 3 * OTHERS)}
    kept, passed = limit_by_owner(things, 1)
    assert (len(kept), len(passed)) == (OTHERS, 2 * OTHERS)


@pytest.mark.needs_root
def test_what_may_prove_a_segment_is_never_passed_over(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cacheserver, "EACH", 2)
    for number in range(6):
        path = machine.tmp / f"cache_server_p{2000 + number}"
        os.mknod(path, 0o140600)
        os.chown(path, SOMEBODY, SOMEBODY)
        os.utime(path, (number, number))
    found = socket_files(str(machine.tmp))
    assert [one.port for one in found.sockets] == [2004, 2005]
    assert found.passed == {SOMEBODY: 4}
    oldest = next(one for one in socket_files(str(machine.tmp), None, range(1 << 32)).sockets)
    kept = socket_files(str(machine.tmp), None, {oldest.key}).sockets
    assert [one.port for one in kept] == [2000, 2004, 2005]


@pytest.mark.needs_root
def test_of_an_owner_with_too_much_no_log_proves_a_segment(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket of a living server may be among what was not looked at."""
    server = machine.dead_server(PORT)
    machine.lose(server.socket)
    gone(server.pid)
    assert machine.codes() == ["orphan-segment"]
    base = machine.tmp / "mindspore"
    base.mkdir(exist_ok=True)
    monkeypatch.setattr(cacheserver, "trusted_owners", frozenset)
    monkeypatch.setattr(cacheserver, "LOGINS", 1)
    for name in ("one", "two"):
        (base / name).mkdir()
    assert find_places(str(machine.tmp)).passed == {os.geteuid(): 1}
    assert machine.codes() == ["unproven", "unproven"]


@pytest.mark.needs_root
@pytest.mark.parametrize("kind", [0o100600, 0o140600])
def test_what_a_stranger_piles_up_in_a_folder_of_root_keeps_roots_segment_proven(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    server = machine.dead_server(PORT)
    machine.lose(server.socket)
    gone(server.pid)
    monkeypatch.setattr(cacheserver, "NAMES", 3)
    for number in range(5):
        path = machine.tmp / f".cache_server_p{number}.npudoctor.{number}"
        os.mknod(path, kind)
        os.chown(path, SOMEBODY, SOMEBODY)
        os.utime(path, (1, 1))
    found = socket_files(str(machine.tmp))
    assert (len(found.sockets), found.passed) == ((0, {}) if kind == 0o100600 else (3, {SOMEBODY: 2}))
    assert "orphan-segment" in machine.codes()


def test_a_few_are_told_one_by_one_and_many_as_one(machine: Machine) -> None:
    for number in range(21):
        path = machine.tmp / f"cache_server_p{3000 + number}"
        os.mknod(path, 0o140600)
        os.utime(path, (1, 1))
    (finding,) = machine.ask().findings
    assert "left 21 sockets" in finding.message
    assert finding.fix is not None
    assert (finding.fix.risk, len(finding.fix.steps)) == (Risk.SAFE, 21)
    os.unlink(machine.tmp / "cache_server_p3000")
    assert len(machine.ask().findings) == 20
    os.mknod(machine.tmp / "cache_server_p3000", 0o140600)
    os.utime(machine.tmp / "cache_server_p3000", (1, 1))
    report = machine.fix()
    assert (report.exit_code, report.changed, machine.codes()) == (0, True, [])
