"""What is sorted where: what may go, what waits for something else, what is shown only."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.support import ipc
from tests.support.machine import PORT, Machine, older
from tests.support.others import as_user, in_pid_namespace

from npudoctor.checks.leftovers import _cache_server_steps as steps
from npudoctor.fixing.journal import Journal
from npudoctor.fixing.steps.steps import RemoveSharedMemory, RemoveSocket, encode
from npudoctor.proof import leftovers
from npudoctor.proof.leftovers import Leftovers, StaleSocket, format_size, format_time, judge_leftovers
from npudoctor.proof.snapshot import take_snapshot

SOMEBODY = 61234


def seen(machine: Machine) -> Leftovers:
    return judge_leftovers(take_snapshot(machine.host()))


def shown(found: Leftovers) -> dict[str, int]:
    """How much there is of each sort, but for what there is nothing of."""
    return {name: len(things) for name, things in vars(found).items() if things}


def test_nothing(machine: Machine) -> None:
    assert shown(seen(machine)) == {}
    machine.server(spill=True)
    assert shown(seen(machine)) == {}


def test_all_of_a_dead_server(machine: Machine) -> None:
    server = machine.dead_server(spill=True)
    found = seen(machine)
    assert shown(found) == {"orphans": 1, "sockets": 1, "spills": 1}
    assert found.sockets[0].after == (server.shmid,)


def test_a_socket_alone(machine: Machine) -> None:
    ipc.remove(machine.dead_server().shmid)
    found = seen(machine)
    assert shown(found) == {"sockets": 1}
    assert found.sockets[0].after == ()


def test_a_socket_waits_with_the_segment_that_clients_hold(machine: Machine) -> None:
    server = machine.server()
    client = machine.client(server.shmid)
    server.die()
    assert shown(seen(machine)) == {"attached": 1}
    client.die()
    assert shown(seen(machine)) == {"orphans": 1, "sockets": 1}


@pytest.mark.needs_root
def test_a_socket_waits_with_the_segment_that_is_not_proven(machine: Machine) -> None:
    machine.dead_server()
    assert shown(in_pid_namespace(lambda: seen(machine))) == {"unproven_segments": 1}


def test_a_socket_goes_without_a_segment_that_has_its_key_by_chance(machine: Machine) -> None:
    server = machine.dead_server()
    ipc.remove(server.shmid)
    older(server.socket, 60)
    machine.segment(server.key)
    assert shown(seen(machine)) == {"unproven_segments": 1, "sockets": 1}


@pytest.mark.parametrize("mode", ["600", "640"])
def test_a_socket_stays_while_a_segment_made_with_it_is_in_use(machine: Machine, mode: str) -> None:
    """Even where it is no cache server's segment: whatever uses it, something does."""
    server = machine.dead_server()
    ipc.remove(server.shmid)
    machine.owes(ipc.make(server.key, mode=int(mode, 8)))  # we live
    found = seen(machine)
    assert shown(found) == {"unproven_sockets": 1}
    assert "in use" in found.unproven_sockets[0].why


def test_a_socket_goes_without_a_segment_of_another_size_whose_maker_is_dead(machine: Machine) -> None:
    machine.dead_server(PORT, "--size", 4096)
    assert shown(seen(machine)) == {"sockets": 1}


def test_what_is_no_socket_is_not_spoken_of(machine: Machine) -> None:
    path = machine.dead_server().socket
    machine.lose(path)
    path.symlink_to("elsewhere")
    path.with_name(f".cache_server_p{PORT}.npudoctor.ab").write_text("")
    assert "unproven_sockets" not in shown(seen(machine))


@pytest.mark.needs_root
def test_other_users_sockets_are_not_spoken_of(machine: Machine) -> None:
    server = machine.dead_server(PORT, "--folder", ".", "--log-folder", ".")
    ipc.remove(server.shmid)
    assert shown(as_user(SOMEBODY, lambda: seen(machine))) == {}
    assert shown(seen(machine)) == {"sockets": 1}


def parked(machine: Machine, path: Path, *, journal: bool) -> None:
    if journal:
        found = take_snapshot(machine.host()).sockets[0]
        with Journal(str(machine.state), None) as written:
            written.write("before", step=encode(steps.remove_socket(StaleSocket(found, ()))))
    path.rename(path.with_name(f".{path.name}.npudoctor.0123456789abcdef"))


@pytest.mark.parametrize(
    ("lives", "journal", "expected"),
    [
        (False, True, {"orphans": 1, "sockets": 1}),
        (False, False, {"unproven_segments": 1, "unproven_sockets": 1}),
        (True, True, {"displaced": 1}),
        (True, False, {"unproven_sockets": 1}),
    ],
)
def test_a_parked_socket(machine: Machine, lives: bool, journal: bool, expected: dict[str, int]) -> None:
    server = machine.server(PORT, "--log-level", 2)
    if not lives:
        server.die()
    parked(machine, server.socket, journal=journal)
    assert shown(seen(machine)) == expected


def test_a_parked_one_that_is_stopped_is_alive(machine: Machine) -> None:
    server = machine.server()
    parked(machine, server.socket, journal=True)
    server.signal(signal.SIGSTOP)
    assert shown(seen(machine)) == {"displaced": 1}


def test_the_steps_name_the_very_objects(machine: Machine) -> None:
    server = machine.dead_server(spill=True)
    found = seen(machine)
    row, status, log = ipc.rows()[server.shmid], server.socket.lstat(), server.log.lstat()
    (judged,) = found.orphans
    assert steps.remove_segment(judged.segment, judged.log) == RemoveSharedMemory(
        server.shmid, server.key, server.pid, row["ctime"], row["dtime"], ipc.GIB, row["cuid"],
        log.st_dev, log.st_ino,
    )  # fmt: skip
    assert steps.remove_socket(found.sockets[0]) == RemoveSocket(
        str(server.socket), status.st_dev, status.st_ino, status.st_mtime_ns, status.st_uid, PORT,
        (server.shmid,),
    )  # fmt: skip
    step = steps.remove_spill(found.spills[0].folder)
    assert (step.directory, step.inode) == (str(server.spill), server.spill.stat().st_ino)
    assert [mark.inode for mark in step.files] == [
        file.stat().st_ino for file in sorted(server.spill.iterdir())
    ]


def test_the_evidence_says_what_proves(machine: Machine) -> None:
    server = machine.dead_server()
    (judged,) = seen(machine).orphans
    text = "\n".join(leftovers.segment_evidence(judged))
    for words in (
        f"shmid {server.shmid}",
        f"cpid {server.pid}",
        f"0x{server.key:08x}",
        "nattch 0",
        "proof A",
    ):
        assert words in text
    machine.lose(server.socket)
    (judged,) = seen(machine).orphans
    assert str(server.log) in leftovers.segment_evidence(judged)[-1]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (4096, "4 KiB"),
        (1_500_000, "1.43 MiB"),
        (4 << 30, "4 GiB"),
        (1000 << 30, "1000 GiB"),
        (1 << 41, "2 TiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert format_size(size) == text


def test_moments() -> None:
    assert format_time(0) == "-"
    assert len(format_time(1_800_000_000)) == 19
