"""Whether a socket file is dead: only when nothing at all speaks against it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from tests.support import ipc
from tests.support.machine import PORT, Machine, older, program
from tests.support.others import as_user, forked, with_hidden_processes

from npudoctor.checks.leftovers._cache_server_steps import remove_socket
from npudoctor.facts.leftovers.cache_server import SocketFile
from npudoctor.fixing.journal import Journal
from npudoctor.fixing.steps.steps import encode
from npudoctor.host.fs.walk import Parent
from npudoctor.host.network.sockets import Listener
from npudoctor.proof.leftovers import StaleSocket
from npudoctor.proof.snapshot import is_listed, take_snapshot
from npudoctor.proof.socket import SocketLife, SocketState, judge_socket, why_untrusted

SOMEBODY = 61234


def states(machine: Machine) -> list[SocketState]:
    scene = take_snapshot(machine.host())
    return [judge_socket(scene, found) for found in scene.sockets]


def state(machine: Machine) -> SocketLife:
    (only,) = states(machine)
    return only.state


def why(machine: Machine) -> str:
    (only,) = states(machine)
    assert only.state is SocketLife.UNKNOWN
    return only.why


def stale(machine: Machine, port: int = PORT) -> Path:
    """A socket file that nothing is left of but itself."""
    server = machine.dead_server(port)
    ipc.remove(server.shmid)
    return server.socket


def test_a_living_one(machine: Machine) -> None:
    machine.server()
    assert state(machine) is SocketLife.ALIVE


def test_one_that_is_starting_and_answers_nobody_yet(machine: Machine) -> None:
    """connect() says ECONNREFUSED, as it does of a dead one."""
    server = machine.server(PORT, "--deaf")
    assert "/proc/net/unix" in why(machine)
    scene = take_snapshot(machine.host())
    assert scene.answers[str(server.socket)] == (Listener.REFUSED, Listener.REFUSED)


def test_one_that_is_young(machine: Machine) -> None:
    stale(machine)
    host = machine.host()
    host.clock.current -= 55  # type: ignore[attr-defined]
    scene = take_snapshot(host)
    (found,) = scene.sockets
    assert judge_socket(scene, found).state is SocketLife.UNKNOWN
    assert scene.answers[found.path] == (Listener.REFUSED,)
    assert host.clock.waited == 0  # type: ignore[attr-defined]


def test_the_two_looks_are_two_seconds_apart(machine: Machine) -> None:
    stale(machine, PORT)
    stale(machine, PORT + 1)
    host = machine.host()
    take_snapshot(host)
    assert host.clock.waited == 2.0  # type: ignore[attr-defined]


def test_a_stopped_one_lives(machine: Machine) -> None:
    machine.server().signal(signal.SIGSTOP)
    assert state(machine) is SocketLife.ALIVE


def test_a_dead_one(machine: Machine) -> None:
    stale(machine)
    assert state(machine) is SocketLife.DEAD


def test_one_that_listens_at_the_second_look(machine: Machine) -> None:
    path = stale(machine)
    path.unlink()
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    host = machine.host()
    wait = host.clock.wait_until

    def wait_until(steady: float) -> None:
        server.listen()
        wait(steady)

    host.clock.wait_until = wait_until  # type: ignore[method-assign]
    scene = take_snapshot(host)
    server.close()
    assert judge_socket(scene, scene.sockets[0]).state is SocketLife.ALIVE


def test_a_link_to_a_living_one_is_no_socket(machine: Machine) -> None:
    server = machine.server(PORT)
    server.socket.with_name(f"cache_server_p{PORT + 1}").symlink_to(server.socket)
    assert [one.state for one in states(machine)] == [SocketLife.ALIVE, SocketLife.NO_SOCKET]


def test_a_link_to_a_dead_one_is_no_socket(machine: Machine) -> None:
    path = stale(machine)
    path.rename(machine.home / "elsewhere")
    path.symlink_to(machine.home / "elsewhere")
    assert state(machine) is SocketLife.NO_SOCKET


def test_a_regular_file_is_no_socket(machine: Machine) -> None:
    path = stale(machine)
    path.unlink()
    path.write_text("")
    older(path, 60)
    assert state(machine) is SocketLife.NO_SOCKET


def test_a_datagram_socket_lives(machine: Machine) -> None:
    path = stale(machine)
    path.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))
        older(path, 60)
        assert state(machine) is SocketLife.ALIVE


def test_a_full_backlog_lives(machine: Machine) -> None:
    path = stale(machine)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(path))
        server.listen(0)
        client.settimeout(5)
        client.connect(str(path))
        assert state(machine) is SocketLife.ALIVE


def test_the_port_is_served_elsewhere(machine: Machine) -> None:
    """As seen: a shell without a login name starts a second server on the same port."""
    stale(machine)
    living = machine.server(PORT, "--folder", "mindspore/alice")
    found = {one.file.path: one for one in states(machine)}
    assert found.pop(str(living.socket)).state is SocketLife.ALIVE
    ((_path, other),) = found.items()
    assert other.state is SocketLife.UNKNOWN
    assert str(living.pid) in other.why


def test_a_server_of_another_port_is_nothing_to_it(machine: Machine) -> None:
    stale(machine, PORT)
    machine.server(PORT + 1)
    assert [one.state for one in states(machine)] == [SocketLife.DEAD, SocketLife.ALIVE]


def test_a_server_whose_program_was_upgraded_is_still_one(machine: Machine) -> None:
    stale(machine)
    copied = Path(shutil.copy("/bin/sleep", machine.home / "cache_server"))
    process = os.posix_spawn(str(copied), [str(copied), "1000", "0", str(PORT)], {})
    try:
        copied.unlink()
        assert "serves this port" in why(machine)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


@pytest.mark.parametrize("port", ["fifty", "9" * 5000, ""])
def test_a_server_that_hides_its_port_may_serve_every_one(machine: Machine, port: str) -> None:
    stale(machine)
    command = [str(program()), "-ISc", "print(flush=True); input()", port]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        assert str(server.pid) in why(machine)
        server.communicate(b"\n")


def test_listed_under_another_path_that_leads_there(machine: Machine) -> None:
    """Bound and not listening, by a path with a link in it."""
    path = stale(machine)
    path.unlink()
    (machine.home / "link").symlink_to(path.parent)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(machine.home / "link" / path.name))
        older(path, 60)
        assert "/proc/net/unix" in why(machine)


def test_below_a_temporary_directory_that_is_a_link(machine: Machine) -> None:
    stale(machine)
    machine.tmp.rename(machine.home / "real")
    machine.tmp.symlink_to("real")
    (only,) = states(machine)
    assert only.state is SocketLife.DEAD
    assert only.file.directory == str(machine.home / "real" / "mindspore")


@pytest.mark.needs_root
def test_a_server_in_another_network_namespace(machine: Machine) -> None:
    """Not in our /proc/net/unix, though it lives: connect() through the file tells."""
    server = machine.server()

    def elsewhere() -> SocketLife:
        ipc.unshare("net")
        assert not is_listed(machine.host(), str(server.socket))
        scene = take_snapshot(machine.host())
        return judge_socket(scene, scene.sockets[0]).state

    assert forked(elsewhere) is SocketLife.ALIVE
    os.kill(server.pid, 0)


@pytest.mark.needs_root
def test_a_deaf_server_in_another_network_namespace(machine: Machine) -> None:
    """Nothing but its process tells of it."""
    machine.server(PORT, "--deaf")

    def elsewhere() -> tuple[SocketLife, str]:
        ipc.unshare("net")
        scene = take_snapshot(machine.host())
        judged = judge_socket(scene, scene.sockets[0])
        return judged.state, judged.why

    found, reason = forked(elsewhere)
    assert found is SocketLife.UNKNOWN
    assert "serves this port" in reason


@pytest.mark.needs_root
@pytest.mark.parametrize("level", [1, 2])
def test_where_processes_are_hidden_nothing_is_dead(machine: Machine, level: int) -> None:
    server = machine.dead_server(PORT, "--uid", SOMEBODY)
    ipc.remove(server.shmid)
    assert as_user(SOMEBODY, lambda: state(machine)) is SocketLife.DEAD

    def hidden() -> str:
        return why(machine)

    assert "cannot be read" in with_hidden_processes(level, SOMEBODY, hidden)


def parked(machine: Machine, found: Path, *, journal: bool) -> Path:
    """Name it as a removal does that is killed midway, which wrote down before what it would remove."""
    if journal:
        (one,) = take_snapshot(machine.host()).sockets
        write_down(machine, one)
    return found.rename(found.with_name(f".{found.name}.npudoctor.0123456789abcdef"))


def write_down(machine: Machine, found: SocketFile) -> None:
    with Journal(str(machine.state), None) as journal:
        journal.write("before", step=encode(remove_socket(StaleSocket(found, ()))))


def test_a_parked_one_that_our_journal_knows(machine: Machine) -> None:
    parked(machine, stale(machine), journal=True)
    assert state(machine) is SocketLife.DEAD


def test_a_parked_one_that_no_journal_knows(machine: Machine) -> None:
    parked(machine, stale(machine), journal=False)
    assert "no journal" in why(machine)


def test_a_parked_one_that_is_another_than_the_journal_says(machine: Machine) -> None:
    path = parked(machine, stale(machine), journal=True)
    older(path, 5)
    assert "no journal" in why(machine)


def test_a_parked_one_of_another_name_than_the_journal_says(machine: Machine) -> None:
    path = parked(machine, stale(machine), journal=True)
    path.rename(path.with_name(f".cache_server_p{PORT + 1}.npudoctor.0123456789abcdef"))
    assert "no journal" in why(machine)


def test_a_parked_one_at_which_a_server_answers(machine: Machine) -> None:
    parked(machine, machine.server().socket, journal=True)
    assert state(machine) is SocketLife.ALIVE


def test_a_journal_that_others_could_write_is_not_believed(machine: Machine) -> None:
    parked(machine, stale(machine), journal=True)
    (file,) = (machine.state / "journal").iterdir()
    file.chmod(0o622)
    assert "no journal" in why(machine)


ROOT, MINE, OTHER = 0, 1000, 1001


@pytest.mark.parametrize(
    ("parents", "owner", "euid", "trusted"),
    [
        ([(ROOT, 0o755), (ROOT, 0o1777)], MINE, MINE, True),
        ([(ROOT, 0o755), (ROOT, 0o1777), (MINE, 0o700)], MINE, MINE, True),
        ([(ROOT, 0o755), (ROOT, 0o1777), (MINE, 0o700)], MINE, ROOT, True),
        ([(ROOT, 0o755), (ROOT, 0o1777), (OTHER, 0o755)], MINE, MINE, False),  # another user's folder
        ([(ROOT, 0o755), (ROOT, 0o1777), (MINE, 0o700)], ROOT, ROOT, False),  # root's file, not root's folder
        ([(ROOT, 0o755), (ROOT, 0o777)], MINE, MINE, True),  # 0777, but the entry is ours
        ([(ROOT, 0o755), (ROOT, 0o777)], MINE, ROOT, False),  # 0777, and another's
        ([(ROOT, 0o755), (ROOT, 0o777)], ROOT, ROOT, True),
        ([(ROOT, 0o755), (ROOT, 0o777), (MINE, 0o700)], MINE, MINE, True),
        ([(ROOT, 0o755), (ROOT, 0o777), (MINE, 0o700)], MINE, ROOT, False),
        ([(ROOT, 0o755), (MINE, 0o775)], MINE, MINE, True),
        ([(ROOT, 0o755), (MINE, 0o775)], MINE, ROOT, False),
        ([(MINE, 0o755), (ROOT, 0o755)], ROOT, ROOT, False),  # who owns what is above owns all
    ],
)
def test_which_parents_are_trusted(
    parents: list[tuple[int, int]], owner: int, euid: int, trusted: bool
) -> None:
    way = [Parent(f"/{n}", uid, stat.S_IFDIR | mode) for n, (uid, mode) in enumerate(parents)]
    assert (why_untrusted(way, owner, euid) is None) is trusted


@pytest.mark.needs_root
def test_a_common_folder_that_everybody_writes(machine: Machine) -> None:
    """2.0.0a0 makes it 0777 without the sticky bit."""
    server = machine.dead_server(PORT, "--uid", SOMEBODY)
    ipc.remove(server.shmid)
    common = server.socket.parent
    os.chown(common, 0, 0)
    common.chmod(0o777)
    assert "is writable by other users" in why(machine)
    assert as_user(SOMEBODY, lambda: state(machine)) is SocketLife.DEAD
    common.chmod(0o1777)
    assert state(machine) is SocketLife.DEAD


@pytest.mark.needs_root
def test_a_folder_of_another_user(machine: Machine) -> None:
    path = stale(machine)
    os.chown(path.parent, SOMEBODY, SOMEBODY)
    assert "another user" in why(machine)
