"""cache-server, from the state of a machine to what is said of it and what `fix --yes` leaves of it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.checks.leftovers.leftovers_machine import DEAD, Leftovers, key_of, logged, spilling
from tests.support import ipc
from tests.support.machine import PORT, Machine, Server, gone, older
from tests.support.others import as_user, in_pid_namespace

from npudoctor import Action, Fix, Risk, Severity, Status
from npudoctor.checks.leftovers.cache_server import cache_server
from npudoctor.fixing.outcome import ActionStatus
from npudoctor.fixing.plan import FixRequest, refusal_of
from npudoctor.host.users.identity import user_name
from npudoctor.testing import Asked, FakeClock, ask, fake_host

SOMEBODY, SOMEBODY_ELSE = 61234, 61235


def connects(server: Server) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(server.socket)) == 0


def untouched(machine: Machine, *, status: int, changed: bool = False) -> list[str]:
    """Run `fix --cache-server --yes` as root: nothing may change. The codes that it leaves."""
    segments, tree = ipc.rows(), machine.tree()
    report = machine.fix()
    assert (report.exit_code, report.changed) == (status, changed)
    assert (ipc.rows(), machine.tree()) == (segments, tree)
    assert machine.journal() == []
    return machine.codes()


def test_an_image_and_a_machine_without(machine: Machine) -> None:
    assert ask(cache_server, fake_host(root="/image")).status is Status.SKIPPED
    assert ask(cache_server, fake_host({"/proc/sysvipc/shm": "key shmid\n"})).status is Status.OK
    assert machine.ask().status is Status.OK
    assert machine.fix().exit_code == 0


def test_a_living_server_is_never_spoken_of(machine: Machine) -> None:
    server = machine.server(spill=True)
    machine.client(server.shmid)
    assert machine.ask().status is Status.OK
    assert untouched(machine, status=0) == []
    assert connects(server)


def test_a_stopped_server(machine: Machine) -> None:
    server = machine.server(spill=True)
    server.signal(signal.SIGSTOP)
    assert untouched(machine, status=0) == []
    server.signal(signal.SIGCONT)
    assert connects(server)


def test_a_server_that_is_starting(machine: Machine) -> None:
    machine.server(PORT, "--deaf")
    assert untouched(machine, status=2) == ["unproven"]


def test_one_that_died_within_seconds_of_its_start_can_be_judged_in_a_moment(machine: Machine) -> None:
    """Nobody is told to remove by hand what a second look proves."""
    server = machine.dead_server()
    young, old = machine.host(), machine.host()
    young._parts["clock"] = FakeClock(server.socket.stat().st_mtime + 3)
    (finding,) = ask(cache_server, young).findings
    assert finding.code == "cache-server.unproven"
    assert finding.fix is not None
    # Rounded up: of the file's own fraction of a second it depends which.
    assert finding.fix.title in ("run the check again in 8 s", "run the check again in 9 s")
    assert finding.fix == Fix(finding.fix.title, risk=Risk.MANUAL, needs_root=False, unproven=True)
    assert refusal_of(finding, young, FixRequest(("cache-server",), yes=True)) == finding.fix.title
    old._parts["clock"] = FakeClock(server.socket.stat().st_mtime + 3 + 8)
    codes = [finding.code for finding in ask(cache_server, old).findings]
    assert codes == ["cache-server.orphan-segment", "cache-server.orphan-socket"]


def test_a_socket_of_the_future_is_not_waited_for(machine: Machine) -> None:
    """Made by another clock: nobody knows when it is old enough."""
    server = machine.dead_server()
    host = machine.host()
    host._parts["clock"] = FakeClock(server.socket.stat().st_mtime - 100)
    (finding,) = ask(cache_server, host).findings
    assert finding.fix is not None
    assert finding.fix.unproven and finding.fix.commands == (f"ipcrm -m {server.shmid}",)


def test_a_server_that_ended_cleanly(machine: Machine) -> None:
    machine.server().signal(signal.SIGTERM)
    assert untouched(machine, status=0) == []


def test_dead_with_proof_a(machine: Machine) -> None:
    server = machine.dead_server(spill=True)
    living = machine.server(PORT + 1, spill=True)
    before = ipc.rows()[living.shmid]
    asked = machine.ask()
    assert asked.status is Status.PROBLEM
    assert asked.codes == [f"cache-server.orphan-{what}" for what in ("segment", "socket", "spill")]
    assert [finding.severity for finding in asked.findings] == [
        Severity.ERROR, Severity.WARNING, Severity.WARNING,
    ]  # fmt: skip
    commands = [finding.fix.commands for finding in asked.findings if finding.fix]
    assert commands == [
        (f"ipcrm -m {server.shmid}",),
        (f"rm -- {server.socket}",),
        (
            f"rm -- {server.spill}/IMG00000.LB",
            f"rm -- {server.spill}/IMG00001.LB",
            f"rmdir -- {server.spill}",
        ),
    ]
    for finding in asked.findings:
        assert finding.action is Action.CLEANUP
        assert finding.fix is not None
        assert (finding.fix.risk, finding.fix.needs_root, finding.fix.unproven) == (Risk.SAFE, False, False)
    report = machine.fix()
    assert (report.exit_code, report.changed, report.failed) == (0, True, False)
    assert [one.outcome.status for one in report.actions] == [ActionStatus.APPLIED] * 3
    assert ipc.rows() == {living.shmid: before}
    assert connects(living)
    assert not server.spill.exists()
    assert living.spill.exists()
    assert server.log.exists()
    assert machine.codes() == []
    again = machine.fix()
    assert (again.exit_code, again.changed, again.run) == (0, False, None)


def test_dead_with_proof_b(machine: Machine) -> None:
    server = machine.dead_server(spill=True)
    machine.lose(server.socket)
    assert machine.codes() == ["orphan-segment", "orphan-spill"]
    assert machine.fix().exit_code == 0
    assert ipc.rows() == {}
    assert not server.spill.exists()


def test_dead_with_a_client(machine: Machine) -> None:
    server = machine.server(spill=True)
    client = machine.client(server.shmid)
    server.die()
    (finding,) = machine.ask().findings
    assert finding.code == "cache-server.client-attached"
    assert finding.severity is Severity.ERROR
    assert f"{client.pid} (" in finding.message
    assert finding.fix is not None
    assert finding.fix.commands == (f"kill {client.pid}",)
    assert finding.action is Action.RESTART_JOB
    assert untouched(machine, status=1) == ["client-attached"]
    assert not gone(client.pid)
    client.die()
    assert machine.fix().exit_code == 0


@pytest.mark.needs_root
def test_a_client_that_cannot_be_seen(machine: Machine) -> None:
    server = machine.server()
    machine.client(server.shmid)
    machine.client(server.shmid)
    server.die()
    message = in_pid_namespace(lambda: [finding.message for finding in machine.ask().findings])
    assert len(message) == 1  # cpid is 0 in there, so nothing at all is claimed
    assert "not proven" in message[0]


@pytest.mark.parametrize("size", [ipc.GIB, 4 * ipc.GIB])
def test_a_foreign_segment_with_our_prefix(machine: Machine, size: int) -> None:
    """The most copied key there is, nobody attached, its maker dead: shown, never removed."""
    shmid = machine.segment(ipc.ftok("/etc/passwd"), size)
    (finding,) = machine.ask().findings
    assert finding.code == "cache-server.unproven"
    assert finding.severity is Severity.WARNING
    assert finding.fix is not None
    assert finding.fix.commands == (f"ipcrm -m {shmid}",)
    assert finding.fix.unproven
    assert finding.fix.risk is Risk.MANUAL
    for word in (f"shmid {shmid}", "owner", f"bytes {size}", "nattch 0", "cpid", "created"):
        assert word in finding.evidence[0] + finding.evidence[1]
    assert untouched(machine, status=2) == ["unproven"]


@pytest.mark.parametrize(
    ("size", "mode"), [(ipc.GIB + 1, 0o600), (4096, 0o600), (ipc.GIB, 0o644), (ipc.GIB, 0o660)]
)
def test_a_foreign_segment_that_no_server_makes_is_not_spoken_of(
    machine: Machine, size: int, mode: int
) -> None:
    machine.segment(ipc.ftok("/etc/passwd"), size, mode)
    assert untouched(machine, status=0) == []


def test_thousands_of_unproven_things_are_summed_up(machine: Machine) -> None:
    for number in range(23):
        machine.segment(0x61AB0000 + number)
    for number in range(22):
        folder = machine.tmp / f"{number:036}"
        folder.mkdir()
        (folder / "IMG00000.LB").write_bytes(b"x" * 1024)
    findings = machine.ask().findings
    segments, folders = findings
    assert segments.message.startswith(f"23 segments of user {user_name(os.geteuid())}, 23 GiB in all")
    assert folders.message.startswith(f"22 folders of user {user_name(os.geteuid())}, 22 KiB in all")
    for finding in (segments, folders):
        assert finding.code == "cache-server.unproven"
        assert finding.fix is not None
        assert (finding.fix.commands, finding.fix.unproven) == ((), True)
    assert untouched(machine, status=2) == ["unproven"] * 2


def test_a_foreign_segment_in_use_is_nothing_to_remove(machine: Machine) -> None:
    shmid = machine.segment(ipc.ftok("/etc/passwd"))
    machine.client(shmid)
    (finding,) = machine.ask().findings
    assert (finding.severity, finding.fix) == (Severity.INFO, None)
    assert untouched(machine, status=0) == ["unproven"]


def replaced_segment(machine: Machine, *arguments: object, size: int = ipc.GIB) -> Server:
    """A dead server's socket, with a foreign segment of its key."""
    server = machine.dead_server(PORT, *arguments)
    ipc.remove(server.shmid)
    machine.segment(server.key, size)
    return server


def test_a_foreign_segment_with_our_key_and_another_time(machine: Machine) -> None:
    server = replaced_segment(machine)
    older(server.socket, 100)
    segments = ipc.rows()
    assert machine.codes() == ["orphan-socket", "unproven"]
    assert machine.fix().exit_code == 2
    assert ipc.rows() == segments


def test_a_foreign_segment_with_our_key_and_another_size(machine: Machine) -> None:
    replaced_segment(machine, size=ipc.GIB + 1)
    segments = ipc.rows()
    assert machine.codes() == ["orphan-socket"]
    assert machine.fix().exit_code == 0
    assert ipc.rows() == segments


@pytest.mark.needs_root
def test_a_foreign_segment_with_our_key_and_another_owner(machine: Machine) -> None:
    replaced_segment(machine, "--uid", SOMEBODY)
    assert untouched(machine, status=2) == ["unproven"]


def test_a_socket_that_is_a_link(machine: Machine) -> None:
    server = machine.dead_server()
    ipc.remove(server.shmid)
    machine.lose(server.socket)
    server.socket.symlink_to(machine.home / server.socket.name)
    assert untouched(machine, status=0) == []
    assert server.socket.is_symlink()


def test_a_socket_that_is_a_regular_file(machine: Machine) -> None:
    server = machine.dead_server()
    ipc.remove(server.shmid)
    server.socket.unlink()
    server.socket.write_text("data")
    older(server.socket, 60)
    assert untouched(machine, status=0) == []


def test_the_segment_of_a_socket_that_became_a_link_needs_the_log(machine: Machine) -> None:
    server = machine.dead_server(PORT, "--log-level", 2)
    machine.lose(server.socket)
    server.socket.symlink_to(machine.home / server.socket.name)
    assert untouched(machine, status=2) == ["unproven"]


@pytest.mark.needs_root
def test_a_creator_that_root_cannot_see(machine: Machine) -> None:
    machine.dead_server(spill=True)
    machine.state.mkdir(mode=0o700)
    assert in_pid_namespace(lambda: untouched(machine, status=2)) == ["unproven", "unproven"]


def test_log_level_2_without_a_socket(machine: Machine) -> None:
    machine.lose(machine.dead_server(PORT, "--log-level", 2).socket)
    assert untouched(machine, status=2) == ["unproven"]


@pytest.mark.parametrize("spoil", ["unlink", "link", "write", "rename"])
def test_a_log_that_proves_nothing(machine: Machine, spoil: str) -> None:
    server = machine.dead_server()
    machine.lose(server.socket)
    if spoil == "unlink":
        server.log.unlink()
    elif spoil == "link":
        os.link(server.log, machine.home / "copy")
    elif spoil == "write":
        server.log.chmod(0o646)
    else:
        server.log.rename(server.log.with_name(server.log.name.replace(str(server.pid), "1")))
    assert untouched(machine, status=2) == ["unproven"]


def test_spilled_data_in_doubt_is_shown_with_its_lines(machine: Machine) -> None:
    server = machine.dead_server(spill=True)
    server.spill.chmod(0o755)
    assert machine.codes() == ["orphan-segment", "orphan-socket", "unproven"]
    assert machine.fix().exit_code == 2
    (finding,) = machine.ask().findings
    assert finding.fix is not None
    assert finding.fix.commands[-1] == f"rmdir -- {server.spill}"
    assert len(list(server.spill.iterdir())) == 2


def test_no_line_removes_what_is_no_container(machine: Machine) -> None:
    server = machine.dead_server(spill=True)
    (server.spill / "thesis.txt").write_text("")
    *_rest, finding = machine.ask().findings
    assert finding.code == "cache-server.unproven"
    assert finding.fix is not None
    assert (finding.fix.commands, finding.fix.unproven) == ((), True)
    assert machine.fix().exit_code == 2
    assert (server.spill / "thesis.txt").exists()


def test_a_log_that_names_a_folder_of_the_system(machine: Machine) -> None:
    """Whoever may write a log cannot have root shown lines that remove /etc."""
    server = machine.dead_server(spill=True)
    text = server.log.read_text().replace(str(server.spill), "/etc")
    server.log.write_text(text)
    assert machine.codes() == ["orphan-segment", "orphan-socket"]


def parked(machine: Machine, server: Server) -> Path:
    """Run a removal that is killed when the socket has been renamed."""

    def kill(name: str) -> None:
        if name.startswith("after park"):
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        try:
            machine.fix(at=kill)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    (path,) = server.socket.parent.glob(".cache_server_p*")
    return path


def test_a_parked_socket_is_removed(machine: Machine) -> None:
    server = machine.dead_server()
    path = parked(machine, server)
    assert machine.codes() == ["orphan-socket"]
    assert machine.fix().exit_code == 0
    assert not path.exists()


def test_a_parked_socket_at_which_a_server_answers_gets_its_name_back(machine: Machine) -> None:
    """A server started right before the rename, which took its socket, and the removal was killed then."""
    server = machine.dead_server()
    path = parked(machine, server)
    living = machine.server(PORT + 2)
    path.unlink()
    living.socket.rename(path)
    (finding,) = machine.ask().findings
    assert finding.code == "cache-server.orphan-socket"
    assert finding.fix is not None
    assert finding.fix.commands == (f"mv -n -- {path} {server.socket}",)
    assert machine.fix().exit_code == 0
    assert not path.exists()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(server.socket))
    assert machine.codes() == []


@pytest.mark.parametrize("lives", [True, False])
def test_a_parked_socket_that_no_journal_knows(machine: Machine, lives: bool) -> None:
    server = machine.server()
    if not lives:
        server.die()
        ipc.remove(server.shmid)
    path = server.socket.with_name(f".cache_server_p{PORT}.npudoctor.0123456789abcdef")
    server.socket.rename(path)
    (finding,) = machine.ask().findings
    assert finding.fix is not None
    expected = f"mv -n -- {path} {server.socket}" if lives else f"rm -- {path}"
    assert finding.fix.commands == (expected,)
    assert untouched(machine, status=2) == ["unproven"]


def somebodys(machine: Machine, uid: int = SOMEBODY) -> Server:
    """A dead server of this user, with spilled data."""
    root = machine.home / f"spill-{uid}"
    root.mkdir()
    os.chown(root, uid, uid)
    place = f"mindspore-{uid}" if uid == SOMEBODY_ELSE else "mindspore"
    return machine.dead_server(
        PORT, "--uid", uid, "--spill", root, "--folder", place, "--log-folder", f"{place}/cache/log"
    )


@pytest.mark.needs_root
def test_root_removes_other_users_things_only_when_they_are_named(machine: Machine) -> None:
    server = somebodys(machine)
    assert untouched(machine, status=1) == ["orphan-segment", "orphan-socket", "orphan-spill"]
    report = machine.fix(owners=[SOMEBODY_ELSE])
    assert (report.exit_code, report.changed) == (1, False)
    assert all(f"--owner {SOMEBODY}" in one.outcome.reason for one in report.actions)
    report = machine.fix(owners=[SOMEBODY])
    assert (report.exit_code, report.changed) == (0, True)
    assert ipc.rows() == {}
    assert not server.spill.exists()
    assert server.log.exists()


@pytest.mark.needs_root
def test_naming_an_owner_lifts_no_other_rule(machine: Machine) -> None:
    server = somebodys(machine)
    (server.spill / "thesis.txt").write_text("")
    shmid = machine.segment(ipc.ftok("/etc/passwd"))
    ipc.give(shmid, SOMEBODY)
    report = machine.fix(owners=[SOMEBODY])
    assert report.exit_code == 2
    assert set(ipc.rows()) == {shmid}
    assert server.spill.exists()


@pytest.mark.needs_root
def test_users_remove_their_own_without_root(machine: Machine) -> None:
    somebodys(machine)
    machine.state.mkdir(mode=0o700)
    os.chown(machine.state, SOMEBODY, SOMEBODY)
    assert as_user(SOMEBODY, lambda: needing_root(machine)) == [False, False, False]
    assert needing_root(machine) == [True, True, True]
    assert as_user(SOMEBODY, lambda: machine.fix().exit_code) == 0
    assert machine.codes() == []


def needing_root(machine: Machine) -> list[bool]:
    return [finding.fix.needs_root for finding in machine.ask().findings if finding.fix]


@pytest.mark.needs_root
def test_users_remove_nothing_of_others(machine: Machine) -> None:
    server = somebodys(machine)
    machine.state.mkdir(mode=0o700)
    os.chown(machine.state, SOMEBODY_ELSE, SOMEBODY_ELSE)
    tree, segments = machine.tree(), ipc.rows()
    code, reason = as_user(SOMEBODY_ELSE, lambda: (machine.fix().exit_code, machine.ask().reason))
    assert code in (1, 2)
    assert "only root can examine" in reason
    assert (machine.tree(), ipc.rows()) == (tree, segments)
    assert server.log.exists()


@pytest.mark.needs_root
def test_what_only_root_can_see_is_advisory(machine: Machine) -> None:
    (machine.tmp / "mindspore").mkdir(mode=0o700)
    asked = as_user(SOMEBODY, lambda: (machine.ask().status, machine.ask().advisory))
    assert asked == (Status.UNKNOWN, True)
    assert machine.ask().status is Status.OK


def test_a_place_behind_a_link_is_unknown(machine: Machine) -> None:
    (machine.home / "elsewhere").mkdir()
    (machine.tmp / "mindspore").symlink_to(machine.home / "elsewhere")
    asked = machine.ask()
    assert (asked.status, asked.advisory) == (Status.UNKNOWN, False)
    assert f"{machine.tmp}/mindspore" in asked.reason


@pytest.mark.needs_root
def test_a_common_folder_that_everybody_writes(machine: Machine) -> None:
    """As 2.0.0a0 makes it. Root keeps off what is another's in there; its owner need not."""
    server = machine.dead_server(PORT, "--uid", SOMEBODY, "--log-level", 2)
    os.chown(server.socket.parent, 0, 0)
    server.socket.parent.chmod(0o777)
    segments, tree = ipc.rows(), machine.tree()
    assert machine.fix(owners=[SOMEBODY]).exit_code == 2
    assert (ipc.rows(), machine.tree()) == (segments, tree)
    machine.state.mkdir(mode=0o700)
    os.chown(machine.state, SOMEBODY, SOMEBODY)
    assert as_user(SOMEBODY, lambda: machine.fix().exit_code) == 0
    assert ipc.rows() == {}


def test_a_log_that_breaks_nothing(machine: Machine) -> None:
    """Anybody may put a file into /tmp; the check must neither crash nor believe it."""
    head = "[INFO] MD({},1,dataset-cache-server):2027-03-04-09:15:02.486.312 [x] y] "
    lines = ["Creation of shared memory successful. Shared memory key " + "9" * 5000]
    lines += [
        f"CachePool will use disk folder: /\0/{'a' * 36}",
        "CachePool will use disk folder: /" + "a" * 36,
    ]
    for pid in ("0", "1", "4194305", "9999999999", "9" * 100):
        name = f"mindspore.x.y.log.INFO.1.{pid}"
        (machine.tmp / name).write_text("".join(head.format(pid) + line + "\n" for line in lines))
    assert machine.ask().status is Status.OK


def scene(tmp: Path) -> Iterator[Asked]:
    left = Leftovers(tmp)
    orphan, attached = left.socket(50052), left.socket(50053)
    left.segment(1, key_of(orphan))
    left.segment(2, key_of(attached), nattch=3)
    left.client(4711, 2, key_of(attached))
    left.socket(50054)
    spilled = left.spill("a")
    left.log(logged(left.segment(3, 0x61000003)), spilling(spilled))
    left.segment(4, 0x61000004)
    left.segment(5, 0x61000005, nattch=2)
    _unproven(left)
    yield ask(cache_server, left.host())
    (tmp / "mindspore" / "bob").symlink_to("/nowhere")
    yield ask(cache_server, left.host())


def _unproven(left: Leftovers) -> None:
    displaced = left.socket(50055, ".cache_server_p50055.npudoctor.ab12")
    strange = left.socket(50056, ".cache_server_p50056.npudoctor.ab12")
    left.alive |= {displaced.name, strange.name}
    left.parked(displaced)
    left.log(spilling(left.spill("b")), pid=DEAD + 1, machine="elsewhere")
    left.spill("c", "")
