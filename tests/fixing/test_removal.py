"""The last look before a removal: whatever happens between plan and act, only what was meant goes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest
from tests.support import ipc
from tests.support.machine import PORT, Machine, Server, older
from tests.support.others import become, forked, in_pid_namespace

from npudoctor.fixing.actions import removal
from npudoctor.fixing.actions.apply import apply_step
from npudoctor.fixing.engine import FixReport
from npudoctor.fixing.outcome import ActionStatus, Outcome
from npudoctor.fixing.steps.steps import (
    Command,
    Export,
    RemoveFiles,
    RemoveSharedMemory,
    RemoveSocket,
    RestoreSocket,
)
from npudoctor.host.network.interfaces import interface_addresses
from npudoctor.host.network.sockets import Listener, Sockets

SOMEBODY = 61234
Meanwhile = Callable[[], object]


def fixed_after(machine: Machine, meanwhile: Meanwhile) -> FixReport:
    """Run a fix; this happens when its plan has been shown."""
    return machine.fix(planned=lambda _items: meanwhile())


def endings(report: FixReport) -> dict[str, str]:
    return {one.item.finding.code.partition(".")[2]: one.outcome.status.value for one in report.actions}


def step_of(machine: Machine, code: str) -> object:
    """The step of the one finding with this code."""
    (finding,) = (one for one in machine.ask().findings if one.code.endswith(code))
    assert finding.fix is not None
    return finding.fix.steps[0]


def take(machine: Machine, step: object, **hooks: object) -> Outcome:
    return apply_step(step, machine.host(), **hooks)  # type: ignore[arg-type]


def listening(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    return server


# segments


def test_a_segment_that_went_meanwhile(machine: Machine) -> None:
    server = machine.dead_server()
    report = fixed_after(machine, lambda: ipc.remove(server.shmid))
    assert report.exit_code == 0
    assert endings(report) == {"orphan-segment": "already", "orphan-socket": "applied"}


def test_a_segment_of_the_same_key_made_meanwhile(machine: Machine) -> None:
    """Removal by key would hit it; the shmid is another."""
    server = machine.dead_server(PORT, "--log-level", 2)
    made: list[int] = []

    def meanwhile() -> None:
        ipc.remove(server.shmid)
        made.append(machine.segment(server.key))

    report = fixed_after(machine, meanwhile)
    assert list(ipc.rows()) == made
    assert report.actions[0].outcome.status is ActionStatus.ALREADY


def test_a_client_that_attached_meanwhile(machine: Machine) -> None:
    server = machine.dead_server()
    report = fixed_after(machine, lambda: machine.client(server.shmid))
    assert report.exit_code == 1
    assert not report.changed
    assert endings(report) == {
        "orphan-segment": "refused", "orphan-socket": "refused", "client-attached": "refused",
    }  # fmt: skip
    assert server.shmid in ipc.rows()
    assert server.socket.exists()


@pytest.mark.needs_root
def test_a_segment_that_was_given_away_meanwhile(machine: Machine) -> None:
    server = machine.dead_server()
    report = fixed_after(machine, lambda: ipc.give(server.shmid, SOMEBODY))
    assert endings(report)["orphan-segment"] == "refused"
    assert server.shmid in ipc.rows()


@pytest.mark.parametrize(
    ("field", "value"), [("key", 1), ("ctime", 1), ("size", 1), ("shmid", 999_999), ("cpid", 1)]
)
def test_a_segment_that_is_not_the_one(machine: Machine, field: str, value: int) -> None:
    server = machine.dead_server()
    step = step_of(machine, "orphan-segment")
    assert isinstance(step, RemoveSharedMemory)
    outcome = take(machine, RemoveSharedMemory(**{**vars(step), field: value}))
    assert outcome.status is (ActionStatus.ALREADY if field == "shmid" else ActionStatus.REFUSED)
    assert server.shmid in ipc.rows()


def test_a_segment_whose_creator_is_back(machine: Machine) -> None:
    server = machine.server()
    row = ipc.rows()[server.shmid]
    step = RemoveSharedMemory(server.shmid, server.key, server.pid, row["ctime"], 0, ipc.GIB, os.geteuid())
    assert take(machine, step).status is ActionStatus.REFUSED
    assert server.shmid in ipc.rows()


@pytest.mark.needs_root
def test_a_segment_from_a_namespace_that_does_not_see_its_creator(machine: Machine) -> None:
    server = machine.dead_server()
    step = step_of(machine, "orphan-segment")
    outcome = in_pid_namespace(lambda: take(machine, step).reason)
    assert "disagree" in outcome or "not the one" in outcome
    assert server.shmid in ipc.rows()


def test_a_segment_on_which_the_tables_disagree(machine: Machine) -> None:
    server = machine.dead_server()
    step = step_of(machine, "orphan-segment")
    host = machine.host()
    host.sysvipc.read_segments = list  # type: ignore[method-assign]
    outcome = apply_step(step, host)  # type: ignore[arg-type]
    assert (outcome.status, "disagree" in outcome.reason) == (ActionStatus.REFUSED, True)
    assert server.shmid in ipc.rows()


def test_a_segment_that_goes_at_the_very_last_moment(machine: Machine) -> None:
    server = machine.dead_server()
    step = step_of(machine, "orphan-segment")
    outcome = take(machine, step, at=lambda _name: ipc.remove(server.shmid))
    assert (outcome.status, outcome.changed) == (ActionStatus.ALREADY, False)


@pytest.mark.needs_root
@pytest.mark.parametrize("code", ["orphan-segment", "orphan-socket", "orphan-spill"])
def test_other_users_things(machine: Machine, code: str) -> None:
    root = machine.home / "theirs"
    root.mkdir()
    os.chown(root, SOMEBODY, SOMEBODY)
    machine.dead_server(PORT, "--uid", SOMEBODY, "--spill", root)
    step = step_of(machine, code)
    outcome = take(machine, step)
    assert (outcome.status, f"--owner {SOMEBODY}" in outcome.reason) == (ActionStatus.REFUSED, True)


# sockets


def socket_alone(machine: Machine) -> Server:
    server = machine.dead_server()
    ipc.remove(server.shmid)
    return server


def test_a_socket_that_went_meanwhile(machine: Machine) -> None:
    server = socket_alone(machine)
    report = fixed_after(machine, server.socket.unlink)
    assert (report.exit_code, report.changed, endings(report)) == (0, False, {"orphan-socket": "already"})


def test_a_socket_whose_folder_went_meanwhile(machine: Machine) -> None:
    server = socket_alone(machine)
    report = fixed_after(machine, lambda: shutil.rmtree(server.socket.parent))
    assert (report.exit_code, endings(report)) == (0, {"orphan-socket": "already"})


def test_a_socket_whose_folder_became_a_link_meanwhile(machine: Machine) -> None:
    server = socket_alone(machine)

    def meanwhile() -> None:
        server.socket.parent.rename(machine.home / "moved")
        server.socket.parent.symlink_to(machine.home / "moved")

    report = fixed_after(machine, meanwhile)
    assert endings(report) == {"orphan-socket": "refused"}
    assert (machine.home / "moved" / server.socket.name).exists()


def test_a_server_that_started_meanwhile(machine: Machine) -> None:
    server = socket_alone(machine)
    started: list[Server] = []

    def meanwhile() -> None:
        server.socket.unlink()
        started.append(machine.server(PORT))

    report = fixed_after(machine, meanwhile)
    assert (report.exit_code, report.changed, endings(report)) == (1, False, {"orphan-socket": "refused"})
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(started[0].socket))
    assert started[0].shmid in ipc.rows()


def same_inode(machine: Machine, server: Server, *, listens: bool) -> socket.socket:
    """A new socket in the old one's place, with its inode: as seen, it comes back."""
    inode = server.socket.lstat().st_ino
    server.socket.unlink()
    for _attempt in range(50):
        new = socket.socket(socket.AF_UNIX)
        new.bind(str(server.socket))
        if server.socket.lstat().st_ino == inode:
            break
        new.close()
        server.socket.rename(machine.home / f"used-{_attempt}")
    else:
        pytest.skip("this file system does not give an inode again")
    if listens:
        new.listen()
    return new


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on a file system of a disk, such as ext4: tmpfs gives no number twice."""
    monkeypatch.setattr("tests.support.machine.open_place", lambda: None)


@pytest.mark.parametrize("listens", [True, False])
def test_a_server_that_started_meanwhile_and_got_the_same_inode(
    on_disk: None, machine: Machine, listens: bool
) -> None:
    """Device, inode and key are the same, and while it starts connect() is refused: only mtime tells."""
    server = socket_alone(machine)
    step = step_of(machine, "orphan-socket")
    new = same_inode(machine, server, listens=listens)
    outcome = take(machine, step)
    assert (outcome.status, "replaced" in outcome.reason) == (ActionStatus.REFUSED, True)
    assert server.socket.exists()
    new.close()


@pytest.mark.parametrize("what", ["regular file", "link", "other socket", "touched"])
def test_a_socket_that_was_replaced_meanwhile(machine: Machine, what: str) -> None:
    server = socket_alone(machine)
    keep = machine.home / "kept"

    def meanwhile() -> None:
        if what == "touched":
            return older(server.socket, 1)
        server.socket.rename(keep)
        if what == "regular file":
            server.socket.write_text("")
        elif what == "link":
            server.socket.symlink_to(keep)
        else:
            listening(server.socket).close()
        return None

    report = fixed_after(machine, meanwhile)
    assert endings(report)["orphan-socket"] == "refused"
    assert not report.changed
    assert os.path.lexists(server.socket)
    assert keep.exists() or what == "touched"


def test_a_socket_that_is_replaced_by_a_living_one_at_the_last_moment(machine: Machine) -> None:
    """After the last look and before the rename: what was taken is given back."""
    server = socket_alone(machine)
    living = machine.server(PORT + 3)
    names: list[str] = []

    def at(name: str) -> None:
        names.append(name)
        if name.startswith("before park"):
            machine.lose(server.socket)
            living.socket.rename(server.socket)

    outcome = take(machine, step_of(machine, "orphan-socket"), at=at)
    assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False)
    assert [name.rpartition(" ")[0] for name in names] == [
        "before park socket", "after park socket", "before put back socket", "after put back socket",
    ]  # fmt: skip
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(server.socket))


def test_a_socket_whose_name_was_taken_when_it_shall_be_given_back(machine: Machine) -> None:
    server = socket_alone(machine)

    def at(name: str) -> None:
        if name.startswith("before park"):
            machine.lose(server.socket)
            listening(server.socket).close()
        if name.startswith("after park"):
            listening(server.socket).close()

    outcome = take(machine, step_of(machine, "orphan-socket"), at=at)
    assert outcome.status is ActionStatus.REFUSED
    assert f".cache_server_p{PORT}.npudoctor." in outcome.reason
    assert len(list(server.socket.parent.glob(f"*cache_server_p{PORT}*"))) == 2  # nothing was overwritten


def test_a_socket_that_is_answered_only_after_it_was_parked(machine: Machine) -> None:
    server = socket_alone(machine)
    step = step_of(machine, "orphan-socket")
    host = machine.host()
    answers = iter([Listener.REFUSED, Listener.ALIVE])
    host._parts["sockets"] = Sockets(host.disk, interface_addresses, lambda *_args: next(answers))
    outcome = apply_step(step, host)  # type: ignore[arg-type]
    assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False)
    assert server.socket.exists()


@pytest.mark.parametrize("point", ["before park", "after park", "before unlink", "after unlink"])
def test_ctrl_c_leaves_no_parked_socket(machine: Machine, point: str) -> None:
    server = socket_alone(machine)

    def at(name: str) -> None:
        if name.startswith(point):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take(machine, step_of(machine, "orphan-socket"), at=at)
    left = [path.name for path in server.socket.parent.glob("*cache_server_p*")]
    assert left == ([] if point == "after unlink" else [server.socket.name])


@pytest.mark.parametrize("number", [38, 22])
def test_without_renameat2_nothing_is_removed(
    machine: Machine, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = socket_alone(machine)
    step = step_of(machine, "orphan-socket")

    def unknown(old: str, new: str, directory: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(removal, "rename_without_replacing", unknown)
    outcome = take(machine, step)
    assert (outcome.status, "renameat2" in outcome.reason) == (ActionStatus.REFUSED, True)
    assert server.socket.exists()


def test_a_socket_whose_port_is_served_since(machine: Machine) -> None:
    server = socket_alone(machine)
    report = fixed_after(machine, lambda: machine.server(PORT, "--folder", "mindspore/alice"))
    assert endings(report)["orphan-socket"] == "refused"
    assert server.socket.exists()


def test_a_socket_whose_folder_others_may_write_since(machine: Machine) -> None:
    server = machine.dead_server(PORT, "--uid", SOMEBODY) if os.geteuid() == 0 else None
    if server is None:
        pytest.skip("needs root")
    ipc.remove(server.shmid)
    step = step_of(machine, "orphan-socket")
    server.socket.parent.chmod(0o777)
    outcome = apply_step(step, machine.host([SOMEBODY]))  # type: ignore[arg-type]
    assert (outcome.status, "is writable by other users" in outcome.reason) == (ActionStatus.REFUSED, True)


def test_a_socket_before_its_segment(machine: Machine) -> None:
    """Whatever order somebody chooses: without the socket the segment would lose its proof."""
    server = machine.dead_server()
    outcome = take(machine, step_of(machine, "orphan-socket"))
    assert (outcome.status, str(server.shmid) in outcome.reason) == (ActionStatus.REFUSED, True)
    assert server.socket.exists()


def parked_living(machine: Machine) -> tuple[Server, Path, RestoreSocket]:
    server = machine.server()
    status = server.socket.lstat()
    path = server.socket.with_name(f".cache_server_p{PORT}.npudoctor.ab")
    server.socket.rename(path)
    step = RestoreSocket(
        str(path), str(server.socket), status.st_dev, status.st_ino, status.st_mtime_ns, status.st_uid
    )
    return server, path, step


def test_a_parked_socket_gets_its_name_back(machine: Machine) -> None:
    server, path, step = parked_living(machine)
    assert take(machine, step).status is ActionStatus.APPLIED
    assert server.socket.exists()
    assert take(machine, step).status is ActionStatus.ALREADY
    assert not path.exists()


def test_a_parked_socket_whose_name_is_taken(machine: Machine) -> None:
    server, path, step = parked_living(machine)
    listening(server.socket).close()
    assert take(machine, step).status is ActionStatus.FAILED
    assert path.exists()


def test_a_parked_socket_at_which_nobody_answers_any_more(machine: Machine) -> None:
    server, path, step = parked_living(machine)
    server.die()
    assert take(machine, step).status is ActionStatus.REFUSED
    assert path.exists()


# spilled data


def spilled(machine: Machine) -> tuple[Server, RemoveFiles]:
    server = machine.dead_server(spill=True)
    step = step_of(machine, "orphan-spill")
    assert isinstance(step, RemoveFiles)
    return server, step


def test_all_of_it_goes(machine: Machine) -> None:
    server, step = spilled(machine)
    names: list[str] = []
    assert take(machine, step, at=names.append).status is ActionStatus.APPLIED
    assert not server.spill.exists()
    assert names[::2] == [
        "before unlink file IMG00000.LB", "before unlink file IMG00001.LB",
        f"before remove folder {server.spill.name}",
    ]  # fmt: skip
    assert take(machine, step).status is ActionStatus.ALREADY


def test_what_went_in_part_goes_whole(machine: Machine) -> None:
    server, step = spilled(machine)
    (server.spill / "IMG00000.LB").unlink()
    assert take(machine, step).status is ActionStatus.APPLIED
    assert not server.spill.exists()


@pytest.mark.parametrize(
    "what",
    [
        "written",
        "touched",
        "replaced",
        "linked twice",
        "a link",
        "one more",
        "mode",
        "folder",
        "swapped",
        "moved",
    ],
)
def test_spilled_data_that_was_changed_meanwhile(machine: Machine, what: str) -> None:
    """Not one file goes, also when it is the last that was changed."""
    server, step = spilled(machine)
    file = server.spill / "IMG00001.LB"
    if what == "written":
        stat = file.stat()
        file.write_text("more")
        os.utime(file, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    elif what == "touched":
        older(file, -1)
    elif what == "replaced":
        stat = file.stat()
        file.rename(machine.home / "kept")
        shutil.copy(machine.home / "kept", file)
        os.utime(file, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
    elif what == "linked twice":
        os.link(file, machine.home / "kept")
    elif what == "a link":
        file.rename(machine.home / "kept")
        file.symlink_to(machine.home / "kept")
    elif what == "one more":
        (server.spill / "IMG00002.LB").write_text("")
    elif what == "mode":
        server.spill.chmod(0o755)
    elif what == "folder":
        server.spill.rename(machine.home / "kept")
        shutil.copytree(machine.home / "kept", server.spill)
    elif what == "swapped":
        server.spill.rename(machine.home / "kept")
        server.spill.symlink_to(machine.home / "kept")
    else:
        server.spill.parent.rename(machine.home / "kept")
        server.spill.parent.symlink_to(machine.home / "kept")
    before = sorted(path for path in machine.home.rglob("*"))
    outcome = take(machine, step)
    assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False)
    assert sorted(machine.home.rglob("*")) == before


@pytest.mark.needs_root
def test_a_file_that_became_another_users(machine: Machine) -> None:
    server, step = spilled(machine)
    os.chown(server.spill / "IMG00001.LB", SOMEBODY, SOMEBODY)
    assert take(machine, step).status is ActionStatus.REFUSED
    assert len(list(server.spill.iterdir())) == 2


def test_a_file_that_is_changed_between_two_removals(machine: Machine) -> None:
    """What is gone is gone, and is told."""
    server, step = spilled(machine)

    def at(name: str) -> None:
        if name == "after unlink file IMG00000.LB":
            older(server.spill / "IMG00001.LB", -1)

    outcome = take(machine, step, at=at)
    assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, True)
    assert [path.name for path in server.spill.iterdir()] == ["IMG00001.LB"]


def test_a_file_that_comes_at_the_last_moment(machine: Machine) -> None:
    server, step = spilled(machine)

    def at(name: str) -> None:
        if name.startswith("before remove folder"):
            (server.spill / "new").write_text("")

    outcome = take(machine, step, at=at)
    assert (outcome.status, outcome.changed) == (ActionStatus.FAILED, True)
    assert (server.spill / "new").exists()


def test_a_folder_that_is_swapped_while_it_is_emptied(machine: Machine) -> None:
    """What is emptied is the folder that was opened; another one in its place stays."""
    server, step = spilled(machine)

    def at(name: str) -> None:
        if name == "before unlink file IMG00000.LB":
            server.spill.rename(machine.home / "moved")
            server.spill.mkdir(mode=0o700)
            (server.spill / "IMG00000.LB").write_text("another")

    outcome = take(machine, step, at=at)
    assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, True)
    assert (server.spill / "IMG00000.LB").read_text() == "another"


def test_somebody_opened_a_file_meanwhile(machine: Machine) -> None:
    server, step = spilled(machine)
    code = "import sys; file = open(sys.argv[1]); print(flush=True); input()"
    command = [sys.executable, "-ISc", code, str(server.spill / "IMG00001.LB")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        outcome = take(machine, step)
        assert (outcome.status, str(holder.pid) in outcome.reason) == (ActionStatus.REFUSED, True)
        holder.communicate(b"\n")
    assert len(list(server.spill.iterdir())) == 2


@pytest.mark.needs_root
def test_a_folder_that_cannot_be_reached(machine: Machine) -> None:
    server, step = spilled(machine)
    theirs = RemoveFiles(step.directory, step.device, step.inode, SOMEBODY, step.files)

    def asking() -> str:
        become(SOMEBODY)
        return take(machine, theirs).status.value

    assert forked(asking) in ("failed", "refused")
    assert len(list(server.spill.iterdir())) == 2


# all else


def test_an_export_is_never_applied(machine: Machine) -> None:
    assert take(machine, Export("A", "b")).status is ActionStatus.REFUSED


def test_a_kind_that_is_not_known(machine: Machine) -> None:
    class Strange:
        def lines(self) -> tuple[str, ...]:
            return ("rm -rf /",)

    assert take(machine, Strange()).status is ActionStatus.REFUSED


def test_a_program(machine: Machine) -> None:
    assert take(machine, Command(("true",))) == Outcome(ActionStatus.APPLIED, changed=True)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("false",), "false exited with status 1 and printed nothing"),
        (("sh", "-c", "echo one; echo two >&2; echo >&2; exit 3"), "sh exited with status 3: two"),
        (("sh", "-c", "seq 9; exit 1"), "sh exited with status 1: 7 | 8 | 9"),
        (("sh", "-c", "kill -9 $$"), "sh was killed by signal 9 and printed nothing"),
        (("sh", "-c", "yes"), "sh wrote too much and was stopped: y | y | y"),
    ],
    ids=str,
)
def test_a_program_that_fails_may_have_changed_something(
    machine: Machine, argv: tuple[str, ...], said: str
) -> None:
    outcome = take(machine, Command(argv))
    assert outcome == Outcome(ActionStatus.FAILED, said, changed=True)


def test_a_program_that_cannot_be_started(machine: Machine) -> None:
    outcome = take(machine, Command(("npudoctor-no-such-program",)))
    reason = "npudoctor-no-such-program is not installed"
    assert outcome == Outcome(ActionStatus.REFUSED, reason, changed=False)


def test_a_living_server_survives_every_step_that_means_it(machine: Machine) -> None:
    """Steps that no check of ours would make, told by one that is wrong."""
    server = machine.server(spill=True)
    row, status = ipc.rows()[server.shmid], server.socket.lstat()
    uid = os.geteuid()
    steps = [
        RemoveSharedMemory(server.shmid, server.key, server.pid, row["ctime"], 0, ipc.GIB, uid),
        RemoveSocket(str(server.socket), status.st_dev, status.st_ino, status.st_mtime_ns, uid, PORT),
    ]
    for _state in (signal.SIGCONT, signal.SIGSTOP):
        server.signal(_state)
        assert [take(machine, step).status for step in steps] == [ActionStatus.REFUSED] * 2
    assert server.shmid in ipc.rows()
    assert server.socket.exists()
