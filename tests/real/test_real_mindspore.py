"""npudoctor on what real servers of the MindSpore wheel leave when they are killed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest

from .cache_server import COMMON, CacheServer
from .sysv import Segment, segments

pytestmark = [pytest.mark.real_mindspore, pytest.mark.needs_root, pytest.mark.slow]

NewServer = Callable[..., CacheServer]
Npudoctor = Callable[..., Any]
Record = Callable[[str, str], None]

ORPHANS = {"cache-server.orphan-segment", "cache-server.orphan-socket", "cache-server.orphan-spill"}


def test_kill_one_of_two(new_server: NewServer, npudoctor: Npudoctor, record: Record) -> None:
    living, session, checksum = server_with_data(new_server)
    dead = killed(new_server)
    before = living.segment()
    sessions = living.sessions()
    record("the survivor before", portrait(living))
    record("both, one killed", table())

    found = npudoctor("check", "cache-server", "--format", "json")
    assert found.status == 1, found
    assert found.codes() == ORPHANS, found.stdout
    assert found.json["verdict"] == "not_ready"
    assert npudoctor("check", "--format", "json").status == 1

    world = snapshot(dead)
    plan = npudoctor("fix", "--cache-server", "--dry-run")
    record("npudoctor fix --cache-server --dry-run", plan.stdout)
    assert plan.status == 1, plan
    assert f"ipcrm -m {dead.segment().shmid}\n" in plan.stdout
    for path in (dead.socket, *dead.left):
        assert any("rm " in line and str(path) in line for line in plan.stdout.splitlines()), plan.stdout
    assert snapshot(dead) == world

    logs, socket, shmid = dead.logs(), dead.socket, dead.segment().shmid
    assert_healed(npudoctor, record, codes=ORPHANS)
    assert shmid not in segments()
    assert not socket.exists()
    assert dead.spill_root
    assert not list(dead.spill_root.iterdir())
    assert dead.logs() == logs

    assert living.segment() == before
    record("the survivor after", portrait(living))
    assert living.sessions() == sessions
    assert living.client(session, seed=3, kind="memory")["checksum"] == checksum

    again = new_server_on(dead)
    again.stop()
    assert list(segments()) == [before.shmid]


def test_client_of_the_dead_server_lives(new_server: NewServer, npudoctor: Npudoctor, record: Record) -> None:
    server = new_server("spill")
    client = server.attached_client(server.new_session(), "spill")
    server.settle()
    server.kill()
    record("the server is dead, its client lives", table())
    assert server.segment().nattch == 1

    found = npudoctor("check", "cache-server", "--format", "json")
    assert found.status == 1, found
    (attached,) = (one for one in found.findings() if one["code"] == "cache-server.client-attached")
    assert str(client.pid) in attached["message"] + " ".join(attached["evidence"])

    world = snapshot(server)
    refused = npudoctor("fix", "--cache-server", "--yes", "--format", "json")
    record("npudoctor fix --cache-server --yes, client alive", refused.stdout)
    assert refused.status == 1, refused
    assert refused.json["changed"] is False
    statuses = {action["code"]: action["status"] for action in refused.json["actions"]}
    assert statuses["cache-server.client-attached"] == "refused"
    assert snapshot(server) == world  # the socket stays too: it is the proof for the segment

    ended(client)
    assert_healed(npudoctor, record, codes=ORPHANS)
    assert not segments()


def test_socket_gone_first(new_server: NewServer, npudoctor: Npudoctor, record: Record) -> None:
    dead = killed(new_server)
    dead.socket.unlink()
    logs = dead.logs()
    codes = ORPHANS - {"cache-server.orphan-socket"}

    found = npudoctor("check", "cache-server", "--format", "json")
    assert found.status == 1, found
    assert found.codes() == codes, found.stdout
    (segment,) = (one for one in found.findings() if one["code"] == "cache-server.orphan-segment")
    assert any(path.name in " ".join(segment["evidence"]) for path in logs), segment

    assert_healed(npudoctor, record, codes=codes)
    assert not segments()
    assert dead.logs() == logs


def test_dead_server_that_nobody_reaped(new_server: NewServer, npudoctor: Npudoctor, record: Record) -> None:
    dead = killed(new_server, reap=False)
    assert npudoctor("check", "cache-server", "--format", "json").codes() == ORPHANS
    assert_healed(npudoctor, record, codes=ORPHANS)
    assert not segments()
    assert not list(COMMON.glob(f"**/cache_server_p{dead.port}"))


def test_both_spill_to_one_directory(new_server: NewServer, npudoctor: Npudoctor, record: Record) -> None:
    living, session, checksum = server_with_data(new_server, "spill")
    dead = killed(new_server)
    assert npudoctor("check", "cache-server", "--format", "json").codes() == ORPHANS
    before = living.segment()
    assert_healed(npudoctor, record, codes=ORPHANS)
    assert dead.spill_root
    assert dead.spill_root == living.spill_root
    assert set(dead.spill_root.iterdir()) == {path.parent for path in living.containers()}
    assert living.segment() == before
    assert living.client(session, seed=3, kind="spill")["checksum"] == checksum


def test_living_server_alone(new_server: NewServer, npudoctor: Npudoctor, record: Record) -> None:
    living, session, checksum = server_with_data(new_server)
    client = living.attached_client(session, "memory")
    before, sessions = segments(), living.sessions()

    found = npudoctor("check", "cache-server", "--format", "json")
    record("npudoctor check cache-server, one living server", found.stdout)
    assert found.status == 0, found
    (row,) = found.json["results"]
    assert row["status"] == "ok"
    assert_nothing_to_do(npudoctor)

    assert segments() == before
    assert living.sessions() == sessions
    ended(client)
    assert living.client(session, seed=2, kind="memory")["checksum"] == checksum
    assert_nothing_to_do(npudoctor)
    assert living.listens()


def server_with_data(new_server: NewServer, spill: str = "") -> tuple[CacheServer, int, str]:
    """A server, a session whose cache is filled, and the checksum of what it holds."""
    server, kind = new_server(spill), "spill" if spill else "memory"
    session = server.new_session()
    answer = server.client(session, seed=1, kind=kind)
    assert answer["num_disk_cached" if spill else "num_mem_cached"] == answer["rows"]
    # The test of the test: another seed makes other rows, but not where the cache has them already.
    assert server.client(session, seed=2, kind="none")["checksum"] != answer["checksum"]
    assert server.client(session, seed=2, kind=kind)["checksum"] == answer["checksum"]
    return server, session, answer["checksum"]


def killed(new_server: NewServer, reap: bool = True) -> CacheServer:
    """A server with a filled spill directory, after kill -9: segment, socket, spill and log are left."""
    server = new_server("spill")
    answer = server.client(server.new_session(), seed=1, kind="spill")
    assert answer["num_disk_cached"] > 0
    server.settle()
    server.kill(reap)
    assert server.left
    assert all(path.stat().st_size > 0 for path in server.left)
    assert server.segment().nattch == 0
    assert server.socket.exists()
    assert not server.listens()
    assert server.logs()
    return server


def new_server_on(dead: CacheServer) -> CacheServer:
    """A new server on the port of a dead one."""
    server = CacheServer(dead.mindspore, dead.port)
    server.start()
    return server


def assert_healed(npudoctor: Npudoctor, record: Record, codes: set[str]) -> None:
    """fix removes exactly these, and then neither fix nor check has anything to say."""
    healed = npudoctor("fix", "--cache-server", "--yes", "--format", "json")
    record("npudoctor fix --cache-server --yes --format json", healed.stdout)
    assert healed.status == 0, healed
    assert healed.json["schema"] == "npudoctor.fix/1"
    assert healed.json["changed"] is True
    assert {action["code"] for action in healed.json["actions"]} == codes
    assert {action["status"] for action in healed.json["actions"]} == {"applied"}
    assert_nothing_to_do(npudoctor)
    checked = npudoctor("check", "cache-server", "--format", "json")
    assert checked.status == 0, checked
    assert not checked.codes()


def assert_nothing_to_do(npudoctor: Npudoctor) -> None:
    """A run of fix that changes nothing and is content."""
    done = npudoctor("fix", "--cache-server", "--yes", "--format", "json")
    assert done.status == 0, done
    assert done.json["changed"] is False


def ended(client: subprocess.Popen[str]) -> None:
    """Let an attached client go."""
    client.communicate(timeout=60)


def snapshot(server: CacheServer) -> tuple[dict[int, Segment], set[tuple[Path, int, int, int, int]]]:
    """All segments and all files: paths, inodes, modes, sizes, times."""
    roots = [COMMON, *([server.spill_root] if server.spill_root else [])]
    files = [path for root in roots for path in (root, *root.rglob("*"))]
    facts = ((path, path.lstat()) for path in files)
    return segments(), {(path, st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns) for path, st in facts}


def portrait(server: CacheServer) -> str:
    """What the note about a living server should hold."""
    segment = server.segment()
    facts = f"pid {server.pid}  shmid {segment.shmid}  cpid {segment.cpid}  key {segment.key:#x}"
    return f"{facts}  nattch {segment.nattch}\n\n{server.server_info()}\n{server.sessions()}"


def table() -> str:
    """All segments of this IPC namespace."""
    return Path("/proc/sysvipc/shm").read_text(encoding="ascii")
