"""Whether a folder of spilled data is a dead server's: named in its log, untouched since, used by nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.headless import headless
from tests.support import ipc
from tests.support.machine import PORT, Machine, Server, older
from tests.support.others import as_user, become, in_pid_namespace

from npudoctor.checks.leftovers import _cache_server_steps as steps
from npudoctor.fixing.journal import Journal
from npudoctor.fixing.steps.steps import encode
from npudoctor.proof.leftovers import Leftovers, judge_leftovers
from npudoctor.proof.snapshot import take_snapshot

SOMEBODY = 61234


def seen(machine: Machine) -> Leftovers:
    return judge_leftovers(take_snapshot(machine.host()))


def proven(machine: Machine) -> list[str]:
    """The folders that are a dead server's; then none is in doubt."""
    found = seen(machine)
    assert not (found.spills and found.unproven_spills)
    return [spill.folder.path for spill in found.spills]


def doubt(machine: Machine) -> str:
    """Why the one folder is not proven; nothing else is proven either."""
    found = seen(machine)
    assert found.spills == ()
    (one,) = found.unproven_spills
    return one.why


def silent(machine: Machine) -> bool:
    """Whether no folder is spoken of."""
    found = seen(machine)
    return not (found.spills or found.unproven_spills or found.unlogged)


def dead(machine: Machine, *arguments: object) -> Server:
    return machine.dead_server(PORT, *arguments, spill=True)


def gone(machine: Machine, *arguments: object) -> Server:
    """A dead server of which the log and the spilled data are left."""
    server = dead(machine, *arguments)
    ipc.remove(server.shmid)
    machine.lose(server.socket)
    return server


def test_of_a_living_server(machine: Machine) -> None:
    machine.server(spill=True)
    assert silent(machine)


def test_of_a_stopped_server(machine: Machine) -> None:
    machine.server(spill=True).signal(signal.SIGSTOP)
    assert silent(machine)


def test_of_a_living_server_whose_socket_was_removed(machine: Machine) -> None:
    machine.lose(machine.server(spill=True).socket)
    assert silent(machine)


def test_of_a_dead_server(machine: Machine) -> None:
    server = dead(machine)
    assert proven(machine) == [str(server.spill)]


def test_of_a_dead_server_without_a_socket(machine: Machine) -> None:
    server = dead(machine)
    machine.lose(server.socket)
    assert proven(machine) == [str(server.spill)]


def test_of_a_dead_server_of_which_nothing_else_is_left(machine: Machine) -> None:
    server = gone(machine)
    assert proven(machine) == [str(server.spill)]


def test_an_empty_one(machine: Machine) -> None:
    server = dead(machine)
    for file in server.spill.iterdir():
        file.unlink()
    assert proven(machine) == [str(server.spill)]


def test_one_that_is_gone(machine: Machine) -> None:
    server = dead(machine, "--containers", 0)
    server.spill.rmdir()
    assert silent(machine)
    server.spill.write_text("")
    assert silent(machine)


def test_while_clients_hold_the_segment(machine: Machine) -> None:
    server = machine.server(spill=True)
    machine.client(server.shmid)
    server.die()
    assert silent(machine)  # the segment speaks for all


def test_while_the_segment_is_not_proven(machine: Machine) -> None:
    server = dead(machine)
    machine.lose(server.socket)
    server.log.chmod(0o620)
    assert silent(machine)


def test_a_log_that_others_may_write(machine: Machine) -> None:
    gone(machine).log.chmod(0o620)
    assert silent(machine)


def test_a_log_in_a_folder_that_others_may_write(machine: Machine) -> None:
    gone(machine).log.parent.chmod(0o777)
    assert "other users could have written" in doubt(machine)


@pytest.mark.needs_root
def test_a_log_of_another_user(machine: Machine) -> None:
    """It is evidence of nothing: else anybody could have root shown lines that remove another's folder."""
    os.chown(gone(machine).log, SOMEBODY, SOMEBODY)
    assert silent(machine)


@pytest.mark.needs_root
def test_a_log_of_another_user_that_names_a_link(machine: Machine) -> None:
    server = gone(machine)
    server.spill.rename(machine.home / "moved")
    server.spill.symlink_to(machine.home / "moved")
    assert "link" in doubt(machine)
    os.chown(server.log, SOMEBODY, SOMEBODY)
    assert silent(machine)


@pytest.mark.needs_root
def test_a_log_of_another_user_does_not_make_a_folder_logged(machine: Machine) -> None:
    server = gone(machine)
    moved = machine.tmp / server.spill.name
    server.spill.rename(moved)
    text = server.log.read_text().replace(str(server.spill), str(moved))
    server.log.write_text(text)
    os.chown(server.log, SOMEBODY, SOMEBODY)
    assert [folder.path for folder in seen(machine).unlogged] == [str(moved)]


@pytest.mark.needs_root
def test_what_another_users_log_says_does_not_protect(machine: Machine) -> None:
    """Else everybody could keep everybody's leftovers from being found, by a log of a process that lives."""
    server = gone(machine)
    machine.server(PORT + 1, "--uid", SOMEBODY, "--folder", ".", "--log-folder", ".")
    (log,) = machine.tmp.glob("*.log.*")
    log.write_text(log.read_text() + spill_line(server.spill, log))
    assert proven(machine) == [str(server.spill)]


def spill_line(folder: Path, log: Path) -> str:
    """As the process of this log would name a folder."""
    pid = log.name.rpartition(".")[2]
    when = time.strftime("%Y-%m-%d-%H:%M:%S")
    head = f"[INFO] MD({pid},7f60820b8800,dataset-cache-server):{when}.486.312 [x.cc:41] DoServiceStart]"
    return f"{head} CachePool will use disk folder: {folder}\n"


def test_a_living_servers_log_names_it_too(machine: Machine) -> None:
    server = gone(machine)
    living = machine.server(PORT + 1)
    living.log.write_text(living.log.read_text() + spill_line(server.spill, living.log))
    assert silent(machine)


def test_another_log_of_its_owner_that_cannot_be_judged(machine: Machine) -> None:
    server = gone(machine)
    other = machine.dead_server(PORT + 1, "--machine", "elsewhere")
    other.log.write_text(other.log.read_text() + spill_line(server.spill, other.log))
    assert "elsewhere" in doubt(machine)


def test_a_log_of_another_machine(machine: Machine) -> None:
    gone(machine, "--machine", "elsewhere")
    assert "elsewhere" in doubt(machine)


def test_a_log_that_names_no_machine(machine: Machine) -> None:
    log = gone(machine).log
    log.write_text(log.read_text().replace("Running on machine", "Running"))
    assert "machine" in doubt(machine)


def test_a_log_whose_last_line_has_no_time(machine: Machine) -> None:
    log = gone(machine).log
    log.write_text(log.read_text().replace(time.strftime("):%Y-"), "):0000-"))
    assert "when it was written" in doubt(machine)


def test_log_level_2_names_none(machine: Machine) -> None:
    gone(machine, "--log-level", 2)
    assert silent(machine)


@pytest.mark.parametrize("name", ["notes.txt", "IMG0.LB", "IMG00000.LB.bak", ".hidden"])
def test_an_extra_file(machine: Machine, name: str) -> None:
    (dead(machine).spill / name).write_text("")
    assert "more than" in doubt(machine)


def test_a_link_in_it(machine: Machine) -> None:
    (dead(machine).spill / "IMG00009.LB").symlink_to("/etc/passwd")
    assert "more than" in doubt(machine)


def test_a_folder_in_it(machine: Machine) -> None:
    (dead(machine).spill / "IMG00009.LB").mkdir()
    assert "more than" in doubt(machine)


def test_a_file_with_two_names(machine: Machine) -> None:
    os.link(dead(machine).spill / "IMG00000.LB", machine.home / "kept")
    assert "more than" in doubt(machine)


@pytest.mark.needs_root
def test_a_file_of_another_user(machine: Machine) -> None:
    os.chown(dead(machine).spill / "IMG00000.LB", SOMEBODY, SOMEBODY)
    assert "more than" in doubt(machine)


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o1700])
def test_a_mode_that_no_server_makes(machine: Machine, mode: int) -> None:
    dead(machine).spill.chmod(mode)
    assert "mode" in doubt(machine)


def test_a_link_in_its_place(machine: Machine) -> None:
    spill = dead(machine).spill
    spill.rename(machine.home / "moved")
    spill.symlink_to(machine.home / "moved")
    assert "link" in doubt(machine)


def test_a_root_that_is_reached_by_a_link(machine: Machine) -> None:
    """Judged, and removed, is where it leads."""
    server = dead(machine)
    server.spill.parent.rename(machine.home / "disk")
    (machine.home / "spill").symlink_to("disk")
    assert proven(machine) == [str(machine.home / "disk" / server.spill.name)]


def test_a_root_that_others_may_write(machine: Machine) -> None:
    """The folder is ours, so it is ours to judge."""
    server = dead(machine)
    server.spill.parent.chmod(0o777)
    assert proven(machine) == [str(server.spill)]


@pytest.mark.needs_root
def test_a_root_of_another_user(machine: Machine) -> None:
    os.chown(dead(machine).spill.parent, SOMEBODY, SOMEBODY)
    assert "another user" in doubt(machine)


def test_written_after_the_death(machine: Machine) -> None:
    server = dead(machine)
    older(server.spill / "IMG00000.LB", -2)
    assert "after its server died" in doubt(machine)


def test_written_in_the_second_of_the_death(machine: Machine) -> None:
    """dtime has no fraction: compared literally, what was written last would seem to be later."""
    server = dead(machine)
    died = ipc.rows()[server.shmid]["dtime"]
    os.utime(server.spill / "IMG00000.LB", ns=(0, died * 10**9 + 999_999_999))
    assert proven(machine) == [str(server.spill)]
    os.utime(server.spill / "IMG00000.LB", ns=(0, (died + 1) * 10**9))
    assert "after its server died" in doubt(machine)


def test_written_after_the_log_when_nothing_else_tells_of_the_death(machine: Machine) -> None:
    server = gone(machine)
    older(server.log, 10)
    assert "after its server died" in doubt(machine)


def journal(machine: Machine, **changed: object) -> None:
    """Write down the removal of the one proven segment, as the engine does before it acts."""
    (judged,) = seen(machine).orphans
    host = machine.host()
    step = {**encode(steps.remove_segment(judged.segment, judged.log)), **changed}
    with Journal(str(machine.state), str(changed.get("boot_id") or host.system.boot_id())) as written:
        written.write("before", step=step)


def test_the_death_that_our_journal_knows(machine: Machine) -> None:
    """A run of ours was killed after the segment was gone; the log alone would not do."""
    server = dead(machine)
    journal(machine)
    ipc.remove(server.shmid)
    older(server.log, 10)
    assert proven(machine) == [str(server.spill)]
    older(server.spill / "IMG00000.LB", -5)
    assert "after its server died" in doubt(machine)


@pytest.mark.parametrize(
    "changed",
    [
        {"cpid": 1}, {"key": 0x61000000}, {"ctime": 5}, {"dtime": 0}, {"log_inode": 5}, {"log_device": 5},
        {"log_inode": None}, {"boot_id": "another"}, {"cpid": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_a_journal_that_tells_of_something_else(machine: Machine, changed: dict[str, object]) -> None:
    server = dead(machine)
    journal(machine, **changed)
    ipc.remove(server.shmid)
    older(server.log, 10)
    assert "after its server died" in doubt(machine)


HOLD = "import sys; file = open(sys.argv[1]); print(flush=True); input()"


def test_a_process_has_a_file_open(machine: Machine) -> None:
    server = dead(machine)
    command = [sys.executable, "-ISc", HOLD, str(server.spill / "IMG00000.LB")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert doubt(machine) == f"process {holder.pid} has it open"
        (server.spill / "IMG00000.LB").unlink()
        assert doubt(machine) == f"process {holder.pid} has it open"
        holder.communicate(b"\n")
    assert proven(machine) == [str(server.spill)]


def test_a_process_whose_main_thread_ended_has_a_file_open(machine: Machine) -> None:
    server = dead(machine)
    with headless(server.spill / "IMG00000.LB") as pid:
        assert doubt(machine) == f"process {pid} has it open"
    assert proven(machine) == [str(server.spill)]


@pytest.mark.needs_root
def test_a_process_in_another_mount_namespace_has_a_file_open(machine: Machine) -> None:
    """Where the folder is mounted under another name, so that the path says nothing."""
    server = dead(machine)
    (machine.home / "x").mkdir()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        ipc.unshare("mnt")
        ipc.bind(server.spill, machine.home / "x")
        kept = open(machine.home / "x" / "IMG00000.LB")  # noqa: SIM115
        os.write(writing, b"x")
        signal.pause()
        kept.close()
    os.read(reading, 1)
    try:
        assert doubt(machine) == f"process {pid} has it open"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.needs_root
def test_a_process_of_its_owner_that_cannot_be_read(machine: Machine) -> None:
    """As sshd and ssh-agent are, which /proc gives to root. Other users' processes need not be readable."""
    server = machine.dead_server(PORT, "--uid", SOMEBODY, "--spill", spill_root(machine))
    mine = str(server.spill)
    assert as_user(SOMEBODY, lambda: proven(machine)) == [mine]
    pid = os.fork()
    if pid == 0:
        become(SOMEBODY)
        signal.pause()
    try:
        while os.stat(f"/proc/{pid}/status").st_uid or not open_status(pid):
            time.sleep(0.01)
        assert as_user(SOMEBODY, lambda: doubt(machine)) == f"cannot read the open files of process {pid}"
        assert proven(machine) == [mine]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def open_status(pid: int) -> bool:
    return f"Uid:\t{SOMEBODY}\t" in Path(f"/proc/{pid}/status").read_text()


def spill_root(machine: Machine) -> Path:
    root = machine.home / "somebody"
    root.mkdir()
    os.chown(root, SOMEBODY, SOMEBODY)
    return root


@pytest.mark.needs_root
def test_from_a_pid_namespace_without_its_server(machine: Machine) -> None:
    """The writer seems gone in there; its socket, at which it answers, and its segment say that it is not."""
    server = machine.server(spill=True)
    assert in_pid_namespace(lambda: silent(machine))
    ipc.remove(server.shmid)
    assert in_pid_namespace(lambda: doubt(machine)) == "a server may still answer at its socket"


@pytest.mark.needs_root
@pytest.mark.parametrize("folder", ["mindspore", "mindspore/cache", "mindspore/alice", "."])
def test_a_log_belongs_to_the_socket_that_lies_beside_or_above(machine: Machine, folder: str) -> None:
    logs = {"mindspore": "mindspore/cache/log", ".": ".", "mindspore/cache": "mindspore/cache/log"}
    log = logs.get(folder, f"{folder}/cache/log")
    server = machine.server(PORT, "--folder", folder, "--log-folder", log, spill=True)
    ipc.remove(server.shmid)
    assert in_pid_namespace(lambda: doubt(machine)) == "a server may still answer at its socket"


def test_folders_that_no_log_names(machine: Machine) -> None:
    """1.x spills to such places, and no log of it is known: for a person to judge."""
    name = "k2x9w7f0q4m1z8c6v3b5n7l9j2h4g6d8s0a1"
    for place in (machine.tmp, machine.tmp / "mindspore" / "cache"):
        place.mkdir(parents=True, exist_ok=True)
        (place / name).mkdir(mode=0o700)
        assert silent(machine)
    for place in (machine.tmp, machine.tmp / "mindspore" / "cache"):
        (place / name / "IMG00000.LB").write_text("")
    (machine.home / name).mkdir()
    assert [folder.path for folder in seen(machine).unlogged] == [
        f"{machine.tmp}/{name}", f"{machine.tmp}/mindspore/cache/{name}",
    ]  # fmt: skip


@pytest.mark.needs_root
def test_other_users_folders_are_not_spoken_of(machine: Machine) -> None:
    (machine.tmp / ("x" * 36)).mkdir()
    (machine.tmp / ("x" * 36) / "IMG00000.LB").write_text("")
    assert as_user(SOMEBODY, lambda: silent(machine))
    (machine.tmp / "mindspore").mkdir(mode=0o700)
    assert as_user(SOMEBODY, lambda: silent(machine))
