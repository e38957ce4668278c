"""Whether a segment is a dead cache server's: by its socket, by its log, and in no other way."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.support import ipc
from tests.support.machine import PORT, Machine, Server, older
from tests.support.others import in_pid_namespace

from npudoctor.host.process.sysvipc import Segment
from npudoctor.proof.segment import GIB, SegmentKind, SegmentState, is_candidate, judge_segment
from npudoctor.proof.snapshot import take_snapshot
from npudoctor.proof.socket import judge_socket

SOMEBODY = 61234


def judged(machine: Machine) -> dict[int, SegmentState]:
    """Every candidate by shmid."""
    scene = take_snapshot(machine.host())
    states = [judge_socket(scene, found) for found in scene.sockets]
    found = [judge_segment(scene, segment, states) for segment in scene.segments if is_candidate(segment)]
    return {one.segment.shmid: one for one in found}


def only(machine: Machine) -> SegmentState:
    (one,) = judged(machine).values()
    return one


def verdict(machine: Machine) -> tuple[SegmentKind, str]:
    one = only(machine)
    return one.kind, one.proof


def without_socket(machine: Machine, *arguments: object) -> Server:
    """A dead server whose socket file somebody removed: only its log can prove its segment."""
    server = machine.dead_server(PORT, *arguments)
    machine.lose(server.socket)
    return server


def test_a_living_server(machine: Machine) -> None:
    machine.server()
    assert verdict(machine) == (SegmentKind.LIVING, "")


def test_a_stopped_server(machine: Machine) -> None:
    machine.server().signal(signal.SIGSTOP)
    assert verdict(machine) == (SegmentKind.LIVING, "")


def test_a_server_that_is_starting(machine: Machine) -> None:
    machine.server(PORT, "--deaf")
    assert verdict(machine) == (SegmentKind.LIVING, "")


def test_proof_a(machine: Machine) -> None:
    server = machine.dead_server()
    one = only(machine)
    assert (one.kind, one.proof) == (SegmentKind.ORPHAN, "A")
    assert one.socket is not None
    assert one.socket.path == str(server.socket)
    assert one.log is not None


def test_proof_a_needs_no_log(machine: Machine) -> None:
    machine.dead_server(PORT, "--log-level", 2)
    one = only(machine)
    assert (one.kind, one.proof, one.log) == (SegmentKind.ORPHAN, "A", None)


def test_proof_b(machine: Machine) -> None:
    server = without_socket(machine)
    one = only(machine)
    assert (one.kind, one.proof) == (SegmentKind.ORPHAN, "B")
    assert one.log is not None
    assert one.log.path == str(server.log)


def test_a_client_holds_it(machine: Machine) -> None:
    server = machine.server()
    machine.client(server.shmid)
    server.die()
    assert verdict(machine) == (SegmentKind.ATTACHED, "A")
    machine.lose(server.socket)
    assert verdict(machine) == (SegmentKind.ATTACHED, "B")


def test_another_size(machine: Machine) -> None:
    server = machine.server(PORT, "--size", ipc.GIB + 4096)
    server.die()
    assert judged(machine) == {}


@pytest.mark.parametrize("size", [0, 1, GIB - 1, GIB + 1, 3 << 29])
def test_sizes_that_no_server_makes(size: int) -> None:
    assert not is_candidate(segment(size=size))
    assert is_candidate(segment(size=4 * GIB))


@pytest.mark.parametrize(
    ("key", "mode", "fits"),
    [
        (0x61000000, 0o600, True), (0x61FFFFFF, 0o666, True), (0x61000000, 0o1600, True),
        (0x60FFFFFF, 0o600, False), (0x62000000, 0o600, False), (0, 0o600, False),
        (0x61000000, 0o644, False), (0x61000000, 0o700, False), (0x61000000, 0o660, False),
    ],
)  # fmt: skip
def test_keys_and_modes_that_could_be_a_servers(key: int, mode: int, fits: bool) -> None:
    assert is_candidate(segment(key=key, mode=mode)) is fits


def segment(key: int = 0x61001234, mode: int = 0o600, size: int = GIB) -> Segment:
    return Segment(key, 1, mode, size, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("folder", "mode", "kind"),
    [
        ("mindspore", "600", SegmentKind.ORPHAN),
        ("mindspore", "666", SegmentKind.UNPROVEN),
        ("mindspore/cache", "666", SegmentKind.ORPHAN),
        ("mindspore/alice", "666", SegmentKind.UNPROVEN),
        (".", "666", SegmentKind.ORPHAN),
    ],
)
def test_mode_666_is_that_of_old_places_alone(
    machine: Machine, folder: str, mode: str, kind: SegmentKind
) -> None:
    machine.dead_server(PORT, "--folder", folder, "--mode", mode, "--log-level", 2)
    assert only(machine).kind is kind


def foreign(machine: Machine, key: int, size: int = ipc.GIB, mode: int = 0o600) -> int:
    return machine.segment(key, size, mode)


def test_a_foreign_segment_with_our_prefix(machine: Machine) -> None:
    """As tried: 4 GiB, ftok of some file and 'a', nobody attached, its creator dead."""
    foreign(machine, ipc.ftok("/etc/passwd"), 4 * ipc.GIB)
    one = only(machine)
    assert (one.kind, one.proof) == (SegmentKind.UNPROVEN, "")
    assert "no socket has its key" in one.why


def test_a_foreign_segment_with_our_key_of_another_time(machine: Machine) -> None:
    server = machine.dead_server(PORT, "--log-level", 2)
    ipc.remove(server.shmid)
    older(server.socket, 5)
    foreign(machine, server.key)
    one = only(machine)
    assert one.kind is SegmentKind.UNPROVEN
    assert "same time" in one.why


@pytest.mark.parametrize(("seconds", "kind"), [(2, SegmentKind.ORPHAN), (5, SegmentKind.UNPROVEN)])
def test_three_seconds_lie_between_socket_and_segment_at_most(
    machine: Machine, seconds: int, kind: SegmentKind
) -> None:
    server = machine.dead_server(PORT, "--log-level", 2)
    older(server.socket, seconds)
    assert only(machine).kind is kind


@pytest.mark.needs_root
def test_a_foreign_segment_with_our_key_of_another_owner(machine: Machine) -> None:
    server = machine.dead_server(PORT, "--uid", SOMEBODY, "--log-level", 2)
    ipc.remove(server.shmid)
    foreign(machine, server.key)
    one = only(machine)
    assert one.kind is SegmentKind.UNPROVEN
    assert "same user" in one.why


@pytest.mark.needs_root
@pytest.mark.parametrize("with_socket", [True, False])
def test_a_segment_that_was_given_to_another_user(machine: Machine, with_socket: bool) -> None:
    server = machine.dead_server()
    if not with_socket:
        machine.lose(server.socket)
    ipc.give(server.shmid, SOMEBODY)
    assert only(machine).kind is SegmentKind.UNPROVEN


def test_a_foreign_segment_whose_maker_lives(machine: Machine) -> None:
    shmid = ipc.make(ipc.ftok("/etc/passwd"))
    machine.owes(shmid)
    assert only(machine).kind is SegmentKind.LIVING


def test_a_dead_servers_socket_in_doubt_leaves_its_segment_in_doubt(machine: Machine) -> None:
    """Its port is served by another process: the log would prove the segment, the socket does not."""
    dead = machine.dead_server()
    machine.server(PORT, "--folder", "mindspore/alice")
    one = judged(machine)[dead.shmid]
    assert one.kind is SegmentKind.UNPROVEN
    assert "serves this port" in one.why


@pytest.mark.needs_root
def test_a_creator_in_a_pid_namespace_that_is_not_seen(machine: Machine) -> None:
    """cpid is 0 then, and whether it lives cannot be known, though it is dead."""
    server = machine.dead_server()
    kind, why, cpid = in_pid_namespace(lambda: told(machine))
    assert (kind, cpid) == (SegmentKind.UNPROVEN, 0)
    assert "pid namespace" in why
    assert only(machine).kind is SegmentKind.ORPHAN
    machine.lose(server.socket)
    assert in_pid_namespace(lambda: told(machine))[0] is SegmentKind.UNPROVEN


def told(machine: Machine) -> tuple[SegmentKind, str, int]:
    one = only(machine)
    return one.kind, one.why, one.segment.cpid


def test_destroyed_already(machine: Machine) -> None:
    """IPC_RMID under a client: the key is gone, so it is nobody's."""
    server = machine.server()
    machine.client(server.shmid)
    server.die()
    ipc.remove(server.shmid)
    assert judged(machine) == {}


def spoil_missing(log: Path) -> None:
    log.unlink()


def spoil_linked_twice(log: Path) -> None:
    os.link(log, log.with_name("other"))


def spoil_group_may_write(log: Path) -> None:
    log.chmod(0o660)


def spoil_others_may_write(log: Path) -> None:
    log.chmod(0o602)


def spoil_other_pid_in_the_name(log: Path) -> None:
    log.rename(f"{log}1")


def spoil_other_pid_in_the_lines(log: Path) -> None:
    log.write_text(log.read_text().replace("MD(", "MD(1"))


def spoil_other_pid_in_both(log: Path) -> None:
    spoil_other_pid_in_the_lines(log)
    pid = log.name.rpartition(".")[2]
    log.rename(log.with_name(log.name[: -len(pid)] + "1" + pid))


def spoil_other_key(log: Path) -> None:
    log.write_text(log.read_text().replace("memory key 16", "memory key 15"))


def spoil_other_time(log: Path) -> None:
    now = time.time()
    text = log.read_text()
    for second in range(-3, 3):
        old, new = (
            time.strftime("):%Y-%m-%d-%H:%M:%S", time.localtime(now + second - back)) for back in (0, 10)
        )
        text = text.replace(old, new)
    log.write_text(text)


def spoil_a_link(log: Path) -> None:
    log.rename(log.with_name("elsewhere"))
    log.symlink_to("elsewhere")


def spoil_folder_a_link(log: Path) -> None:
    log.parent.rename(log.parent.with_name("elsewhere"))
    log.parent.symlink_to("elsewhere")


def spoil_folder_that_others_may_write(log: Path) -> None:
    log.parent.chmod(0o777)


def spoil_folder_above_that_group_may_write(log: Path) -> None:
    log.parents[1].chmod(0o770)


def spoil_owner(log: Path) -> None:
    os.chown(log, SOMEBODY, SOMEBODY)


def spoil_owner_of_folder(log: Path) -> None:
    os.chown(log.parent, SOMEBODY, SOMEBODY)


SPOILERS = [thing for name, thing in globals().items() if name.startswith("spoil_")]


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda spoil: spoil.__name__[6:])
def test_a_log_that_proves_nothing(machine: Machine, spoil: object) -> None:
    if "owner" in getattr(spoil, "__name__", "") and os.geteuid() != 0:
        pytest.skip("needs root")
    server = without_socket(machine)
    assert verdict(machine) == (SegmentKind.ORPHAN, "B")
    spoil(server.log)  # type: ignore[operator]
    assert verdict(machine) == (SegmentKind.UNPROVEN, "")


def test_log_level_2_proves_nothing(machine: Machine) -> None:
    without_socket(machine, "--log-level", 2)
    assert verdict(machine) == (SegmentKind.UNPROVEN, "")


def test_a_living_server_that_logs_the_same_key_stands_against_b(machine: Machine) -> None:
    dead = without_socket(machine)
    living = machine.server(PORT + 1)
    text = living.log.read_text()
    living.log.write_text(text.replace(text.rpartition("memory key ")[2].split()[0], str(dead.key)))
    one = judged(machine)[dead.shmid]
    assert one.kind is SegmentKind.UNPROVEN
    assert str(living.pid) in one.why


def test_a_living_server_of_another_key_is_nothing_to_it(machine: Machine) -> None:
    dead = without_socket(machine)
    living = machine.server(PORT + 1)
    found = judged(machine)
    assert found[dead.shmid].kind is SegmentKind.ORPHAN
    assert found[living.shmid].kind is SegmentKind.LIVING


def test_a_new_server_on_the_port_does_not_save_the_old_orphan(machine: Machine) -> None:
    """As seen: the socket was removed, a new server started, and the old orphan stays for ever."""
    dead = without_socket(machine)
    machine.server(PORT)
    assert judged(machine)[dead.shmid].kind is SegmentKind.ORPHAN
