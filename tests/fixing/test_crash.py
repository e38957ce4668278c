"""Killed at any point, a fix is finished by the next one: the machine ends as if nothing had happened.

The points are not listed here: the engine tells its observer of every change, before and after it, and an
undisturbed run says which there are.
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.support import ipc
from tests.support.machine import PORT, Machine, Server, told
from tests.support.others import forked

from npudoctor.fixing.outcome import Observer


def killed(machine: Machine, at: Observer) -> int:
    """Run a fix in a child; how the child ended, as waitpid says."""
    pid = os.fork()
    if pid == 0:
        try:
            machine.fix(at=at)
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1]


def killer(number: int) -> Observer:
    """Kills its process at this point."""
    left = iter(range(number))

    def at(_name: str) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    return at


def recorded(machine: Machine) -> list[str]:
    """Every point of an undisturbed fix of one dead server, which runs in a child too."""

    def run() -> list[str]:
        names: list[str] = []
        report = machine.fix(at=names.append)
        assert report.exit_code == 0, told(report)
        return names

    machine.dead_server(spill=True)
    return forked(run)


def state(machine: Machine) -> dict[str, Any]:
    """All that a fix could change, but for its journal."""
    ours = {shmid: {**row, "rss": 0, "swap": 0} for shmid, row in ipc.rows().items()}
    return {"segments": ours, "tree": machine.tree(), "codes": machine.codes()}


def lives(server: Server) -> bool:
    return listens(server.socket)


def listens(path: Path) -> bool:
    """Whether somebody does at a socket; by its folder, as its path may be longer than an address."""
    folder = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(f"/proc/self/fd/{folder}/{path.name}") == 0
    finally:
        os.close(folder)


def test_the_points_are_those_of_all_changes(machine: Machine) -> None:
    names = [name.split(" ")[0:3] for name in recorded(machine)]
    assert all(before[1:] == after[1:] for before, after in zip(names[::2], names[1::2]))
    kinds = {" ".join(words[1:]) for words in names}
    assert {"make lock", "make journal", "journal before", "journal after", "journal end"} <= kinds
    assert {"unlink socket", "park socket", "unlink file"} <= kinds
    assert sum(kind.startswith(("remove segment", "remove folder")) for kind in kinds) == 2


def test_a_second_run_finishes_after_a_kill_at_every_point(machine: Machine) -> None:
    living = machine.server(PORT + 3, spill=True)
    names = recorded(machine)
    undisturbed = state(machine)
    assert undisturbed["codes"] == []
    assert list(undisturbed["segments"]) == [living.shmid]
    home = machine.state
    logs: list[Server] = []
    for number, name in enumerate(names):
        machine.state = home.with_name(f"state-{number}")
        server = machine.dead_server(spill=True)
        logs.append(server)
        ended = killed(machine, killer(number))
        assert os.WIFSIGNALED(ended), f"not killed at {name}"
        assert os.WTERMSIG(ended) == signal.SIGKILL
        assert living.shmid in ipc.rows()
        report = machine.fix()
        assert report.exit_code == 0, (name, told(report))
        assert state(machine) == undisturbed, name
        again = machine.fix()
        assert (again.exit_code, again.changed, again.run) == (0, False, None), name
    assert all(server.log.exists() for server in logs)
    assert lives(living)
    assert machine.fix().exit_code == 0
    print(f"{len(names)} points")


def test_killed_twice_at_every_pair_of_acts(machine: Machine) -> None:
    """The second run is killed too, where it acts; the third finishes."""
    names = recorded(machine)
    undisturbed = state(machine)
    acts = [
        n for n, name in enumerate(names) if name.startswith("after") and not name.startswith("after make")
    ]
    home = machine.state
    for number in acts[::3]:
        machine.state = home.with_name(f"state-{number}")
        machine.dead_server(spill=True)
        killed(machine, killer(number))
        killed(machine, killer(8))
        report = machine.fix()
        assert report.exit_code == 0, (names[number], told(report))
        assert state(machine) == undisturbed, names[number]


def test_killed_while_the_wrong_socket_is_parked(machine: Machine) -> None:
    """A living server's socket takes the place of the dead one's at the last moment, and we are killed
    before it gets its name back. The next run gives it back: the journal knows of a removal of that name."""
    for point in ("after park", "before put back"):
        dead, living = machine.dead_server(PORT), machine.server(PORT + 3)
        kept = ipc.rows()[living.shmid]

        def at(name: str, point: str = point, dead: Server = dead, living: Server = living) -> None:
            if name.startswith("before park"):
                machine.lose(dead.socket)
                living.socket.rename(dead.socket)
            if name.startswith(point):
                os.kill(os.getpid(), signal.SIGKILL)

        assert os.WIFSIGNALED(killed(machine, at))
        (finding,) = machine.ask().findings
        assert finding.code == "cache-server.orphan-socket"
        assert finding.fix is not None
        assert finding.fix.commands[0].startswith("mv -n -- ")
        report = machine.fix()
        assert (report.exit_code, report.changed) == (0, True)
        assert ipc.rows()[living.shmid] == kept
        assert not list(dead.socket.parent.glob(f".cache_server_p{PORT}.npudoctor.*"))
        assert listens(dead.socket)
        living.die()
        ipc.remove(living.shmid)
        dead.socket.unlink()


@pytest.mark.parametrize("point", ["after park", "after unlink socket", "after remove segment"])
def test_a_new_server_after_the_kill_is_left_alone(machine: Machine, point: str) -> None:
    def at(name: str) -> None:
        if name.startswith(point):
            os.kill(os.getpid(), signal.SIGKILL)

    machine.dead_server(PORT, spill=True)
    killed(machine, at)
    for path in machine.tmp.rglob("cache_server_p*"):
        machine.lose(path)  # the new server makes it anew
    new = machine.server(PORT, spill=True)
    row = ipc.rows()[new.shmid]
    machine.fix()
    assert ipc.rows()[new.shmid] == row
    assert lives(new)
    assert new.spill.exists()
