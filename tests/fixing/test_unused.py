"""Real files in a real /dev/shm are removed when nobody living can use or want them, and never else."""

from __future__ import annotations

import dataclasses
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pytest
from tests.support.jobs import Node, playing
from tests.support.others import become, forked

from npudoctor import Risk
from npudoctor.checks.leftovers.shared_memory import shared_memory
from npudoctor.checks.leftovers.temp_files import temp_files
from npudoctor.core.marks import FileMark
from npudoctor.fixing.actions.apply import apply_step
from npudoctor.fixing.carry_out import apply_item
from npudoctor.fixing.engine import FixContext
from npudoctor.fixing.journal import Journal
from npudoctor.fixing.outcome import ActionStatus, Observer, Outcome
from npudoctor.fixing.plan import Item, ItemResult
from npudoctor.fixing.steps.steps import RemoveUnused
from npudoctor.host import Host
from npudoctor.host.process.processes import Process
from npudoctor.proof.unused import mark_of

SOMEBODY = 61234
SHM = "/dev/shm"
SIZE = 1 << 21
Play = Callable[[Callable[[Node], Any]], Any]
pytestmark = pytest.mark.needs_root


@pytest.fixture
def play(lack: Callable[[str], None]) -> Play:
    """Plays a scene on a node with an empty /dev/shm."""

    def with_memory(scene: Callable[[Node], Any]) -> Any:
        def prepared(node: Node) -> Any:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", SHM], check=True)
            return scene(node)

        return playing(lack)(prepared)

    return with_memory


def left(name: str = "torch_{pid}_77_0", uid: int = SOMEBODY, mode: int = 0o600) -> Path:
    """A file of a process that is gone."""

    def make() -> str:
        become(uid)
        path = f"{SHM}/{name.format(pid=os.getpid())}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        os.posix_fallocate(descriptor, 0, SIZE)
        return path

    return Path(forked(make))


def step_of(node: Node) -> RemoveUnused:
    (finding,) = node.ask(shared_memory).findings
    assert finding.code == "shared-memory.left-over"
    assert finding.fix and finding.fix.risk is Risk.SAFE, finding.evidence
    (step,) = finding.fix.steps
    assert isinstance(step, RemoveUnused)
    return step


def take(node: Node, step: RemoveUnused, at: Observer = lambda name: None, owner: int = SOMEBODY) -> Outcome:
    return apply_step(step, node.host((owner,)), at)


def refused(outcome: Outcome, word: str) -> None:
    assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False), outcome
    assert word in outcome.reason, outcome.reason


# Another user may not go to our own Python: the name is what tells it from others.
RANK = "printf python3 > /proc/self/comm; echo up; read go; :"


def test_what_the_dead_left_goes(play: Play) -> None:
    def scene(node: Node) -> None:
        paths = [left(), left("paddle_{pid}_1_0")]
        step = step_of(node)
        refused(take(node, step, owner=1), f"--owner {SOMEBODY}")
        outcome = take(node, step)
        assert (outcome.status, outcome.changed) == (ActionStatus.APPLIED, True), outcome
        assert not any(path.exists() for path in paths)
        assert node.ask(shared_memory).findings == ()
        assert take(node, step).status is ActionStatus.ALREADY

    play(scene)


def test_as_its_owner(play: Play) -> None:
    def scene(node: Node) -> None:
        path, roots = left(), left(uid=0)

        def as_somebody() -> ActionStatus:
            become(SOMEBODY)
            found = [one.fix for one in node.ask(shared_memory).findings if one.fix]
            (mine,) = (fix for fix in found if isinstance(fix.steps[0], RemoveUnused))
            assert not mine.needs_root
            return apply_step(mine.steps[0], node.host()).status

        assert forked(as_somebody) is ActionStatus.APPLIED
        assert not path.exists() and roots.exists()

    play(scene)


USES = ("open", "mapped", "mapped privately", "in flight")


@pytest.mark.parametrize("use", USES)
def test_a_use_that_proc_does_not_show(play: Play, use: str) -> None:
    """npudoctor does not look for its own uses: to the check these are as good as hidden."""

    def scene(node: Node) -> None:
        path = left()
        descriptor = os.open(path, os.O_RDONLY if use == "open" else os.O_RDWR)
        pair = socket.socketpair()
        kept = None
        if use == "in flight":
            socket.send_fds(pair[0], [b"x"], [descriptor])
        elif use != "open":
            kept = mmap.mmap(
                descriptor, SIZE, flags=mmap.MAP_PRIVATE if "privately" in use else mmap.MAP_SHARED
            )
        if use == "open":
            kept = descriptor  # type: ignore[assignment]
        else:
            os.close(descriptor)
            if kept is not None:
                assert _only_mapped(path), "mmap keeps a descriptor of its own, which is not what is meant"
        step = step_of(node)
        refused(take(node, step), "in use")
        assert path.stat().st_size == SIZE
        del kept

    play(scene)


def _only_mapped(path: Path) -> bool:
    """Whether we have no descriptor of it; Python's mmap dups the one that it is given: close that."""
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}") == str(path):
                os.close(int(number))
        except OSError:
            continue
    return str(path) in Path("/proc/self/maps").read_text()


READER = "import sys, os; fd = os.open(sys.argv[1], os.O_RDONLY); print('up', flush=True); sys.stdin.read()"


def test_a_user_that_comes_between_plan_and_act(play: Play) -> None:
    def scene(node: Node) -> None:
        path = left()
        step = step_of(node)
        reader = subprocess.Popen(
            [sys.executable, "-c", READER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert reader.stdout and reader.stdout.readline()
        refused(take(node, step), "in use")
        assert path.exists()
        reader.communicate()

    play(scene)


def test_one_who_opens_it_while_we_hold_the_lease(play: Play) -> None:
    def scene(node: Node) -> None:
        path = left()
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        got: list[int] = []
        opener = threading.Thread(target=lambda: got.append(os.open(path, os.O_RDONLY)))

        def at(name: str) -> None:
            if name.startswith("before unlink"):
                opener.start()
                opener.join(0.2)
                assert opener.is_alive(), "the kernel lets it wait"

        refused(take(node, step_of(node), at), "is being opened")
        opener.join(5)
        assert got and os.fstat(got[0]).st_nlink == 1

    play(scene)


def replaced(path: Path) -> None:
    path.rename(path.with_name("other"))
    fresh = left(path.name)
    assert fresh == path


def linked(path: Path) -> None:
    path.rename(path.with_name("torch_1_other"))
    path.symlink_to(path.with_name("torch_1_other"))


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)
    os.chown(path, SOMEBODY, SOMEBODY)


CHANGES: list[Callable[[Path], object]] = [
    replaced,
    linked,
    a_pipe,
    lambda path: os.link(path, path.with_name("second")),
    lambda path: os.truncate(path, SIZE + 1),
    lambda path: os.chown(path, SOMEBODY + 1, -1),
]


@pytest.mark.parametrize("change", CHANGES)
def test_another_thing_by_then(play: Play, change: Callable[[Path], object]) -> None:
    def scene(node: Node) -> None:
        path = left()
        step = step_of(node)
        change(path)
        before = sorted(os.listdir(SHM))
        refused(take(node, step), "changed since")
        assert sorted(os.listdir(SHM)) == before

    play(scene)


def test_one_that_cannot_go_does_not_keep_the_others(play: Play) -> None:
    def scene(node: Node) -> None:
        used, free = left(), left()
        kept = os.open(used, os.O_RDONLY)
        outcome = take(node, step_of(node))
        assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, True)
        assert "1 file is kept" in outcome.reason
        assert used.exists() and not free.exists()
        os.close(kept)

    play(scene)


def test_killed_midway_a_second_run_finishes(play: Play) -> None:
    def scene(node: Node) -> None:
        paths = [left(), left(), left()]
        step = step_of(node)
        for number in (2, 1):
            pid = os.fork()
            if pid == 0:
                take(node, step, lambda name: name.startswith("after") and os.kill(os.getpid(), 9))  # type: ignore[arg-type,func-returns-value]
                os._exit(0)
            assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
            assert sum(path.exists() for path in paths) == number
        assert take(node, step).status is ActionStatus.APPLIED
        assert not any(path.exists() for path in paths)

    play(scene)


def test_a_living_job_of_its_owner_may_know_its_name(play: Play) -> None:
    def scene(node: Node) -> None:
        rank = node.start("bash", "-c", RANK, job=None, uid=SOMEBODY, preexec_fn=os.setpgrp)
        assert rank.stdout and rank.stdout.readline()
        path = left()
        (finding,) = node.ask(shared_memory).findings
        assert finding.fix and finding.fix.unproven and finding.fix.risk is Risk.MANUAL
        assert f"its owner's process {rank.pid} was running when the file changed" in finding.evidence[0]
        found = path.stat()
        mark = FileMark(path.name, found.st_dev, found.st_ino, SIZE, found.st_mtime_ns)
        step = RemoveUnused(SHM, SOMEBODY, (mark,))
        refused(take(node, step), "may still use it by name")
        rank.kill()
        rank.wait()
        assert take(node, step).status is ActionStatus.APPLIED

    play(scene)


HEIR = """
import os, sys, time
made = sys.stdin.readline()  # it is there by now
if os.fork() == 0:
    time.sleep(0.3)
    print(os.getpid(), flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("own_group", [False, True])
def test_an_orphan_whose_parent_knew_its_name(play: Play, own_group: bool) -> None:
    """A worker that was forked later has all that its parent knew, though that was killed since."""

    def scene(node: Node) -> None:
        code = (
            HEIR.replace("    time.sleep(0.3)", "    os.setpgid(0, 0)\n    time.sleep(0.3)")
            if own_group
            else HEIR
        )
        parent = node.start(
            sys.executable, "-c", code, job=None, preexec_fn=lambda: os.setresuid(SOMEBODY, 0, 0)
        )
        assert parent.stdin and parent.stdout
        path = left()
        time.sleep(2.5)  # by so much clocks may disagree
        parent.stdin.write("\n")
        parent.stdin.flush()
        heir = int(parent.stdout.readline())
        parent.wait()
        (finding,) = node.ask(shared_memory).findings
        assert finding.fix and finding.fix.unproven is not own_group
        if not own_group:
            assert f"its owner's process {heir} lost its parent" in finding.evidence[0]
        assert path.exists()

    play(scene)


def test_names_without_a_pid_and_of_nobody_known(play: Play) -> None:
    def scene(node: Node) -> None:
        for name in ("psm_1a2b3c4d", "sem.mp-abc", "nccl-AbCdEf", "postgres"):
            path = left(name)
            found = path.stat()
            mark = FileMark(path.name, found.st_dev, found.st_ino, SIZE, found.st_mtime_ns)
            refused(take(node, RemoveUnused(SHM, SOMEBODY, (mark,))), "name")
            assert path.exists()
        assert not any(
            isinstance(step, RemoveUnused)
            for one in node.ask(shared_memory).findings
            for step in (one.fix.steps if one.fix else ())
        )

    play(scene)


def test_where_processes_are_hidden_nothing_is_proven(play: Play) -> None:
    def scene(node: Node) -> None:
        path = left()
        step = step_of(node)
        subprocess.run(["mount", "-o", "remount,hidepid=2", "/proc"], check=True)

        def as_somebody() -> Outcome:
            become(SOMEBODY)
            return apply_step(step, node.host())

        outcome = forked(as_somebody)
        refused(outcome, "hid")
        assert path.exists()

    play(scene)


OVERLAY = "lowerdir={0}/low,upperdir={0}/up,workdir={0}/work"


def test_file_systems_on_which_a_lease_proves_nothing(play: Play) -> None:
    """On overlayfs it is granted although the file is mapped."""

    def scene(node: Node) -> None:
        place = Path("/var/lib/npudoctor-test")
        for name in ("low", "up", "work", "top"):
            (place / name).mkdir(parents=True)
        options = OVERLAY.format(place)
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, place / "top"], check=True)
        for folder, ending in (("top", ActionStatus.REFUSED), ("low", ActionStatus.APPLIED)):
            path = place / folder / "lock"
            path.write_text("x")
            found = path.stat()
            mark = FileMark("lock", found.st_dev, found.st_ino, 1, found.st_mtime_ns)
            outcome = apply_step(RemoveUnused(str(path.parent), 0, (mark,)), node.host())
            assert outcome.status is ending, outcome
            assert path.exists() is (ending is ActionStatus.REFUSED)
            path.unlink(missing_ok=True)

    play(scene)


def test_without_the_right_to_a_lease(play: Play) -> None:
    """A container's root may lack CAP_LEASE (28)."""

    def scene(node: Node) -> None:
        import ctypes

        path = left()
        step = step_of(node)

        def weaker() -> Outcome:
            libc = ctypes.CDLL(None, use_errno=True)
            header = (ctypes.c_uint32 * 2)(0x20080522, 0)
            data = (ctypes.c_uint32 * 6)()
            assert libc.capget(header, data) == 0
            data[0] &= ~(1 << 28)
            assert libc.capset(header, data) == 0
            return take(node, step)

        refused(forked(weaker), "no lease")
        assert path.exists()

    play(scene)


def test_the_whole_command(play: Play) -> None:
    """Sick, mended, well; what is not proven stays."""

    def scene(node: Node) -> None:
        path, unknown = left(), left("psm_1a2b3c4d")
        status, told = node.npudoctor("fix", "shared-memory", "--yes")
        assert (status, told["changed"]) == (1, False) and path.exists()
        assert f"--owner {SOMEBODY}" in told["actions"][0]["reason"]
        status, told = node.npudoctor("fix", "shared-memory", "--yes", "--owner", str(SOMEBODY))
        assert told["changed"], told
        assert {one["code"]: one["status"] for one in told["actions"]} == {
            "shared-memory.left-over": "applied", "shared-memory.unproven": "refused",
        }  # fmt: skip
        assert status == 2, "something is left that nobody could prove dead"
        assert not path.exists() and unknown.exists()
        unknown.unlink()
        status, told = node.npudoctor("check", "shared-memory", "--expect", "none")
        assert (status, told["counts"]["infos"]) == (0, 0)

    play(scene)


LOCKS = [
    ("temp-files", "TORCH_EXTENSIONS_DIR", "py311_cpu/fused_adam/lock"),
    ("compile-cache", "MS_COMPILER_CACHE_PATH", "add/build.lock"),
]


@pytest.mark.parametrize(("check", "variable", "name"), LOCKS, ids=[row[0] for row in LOCKS])
def test_the_lock_of_a_build_that_died(play: Play, check: str, variable: str, name: str) -> None:
    """While its build lives it is let alone, though no /proc of ours shows the build."""

    def scene(node: Node) -> None:
        place = Path("/var/lib/cache")
        path = place / name
        path.parent.mkdir(parents=True)
        os.environ[variable] = str(place)
        built = os.open(path, os.O_CREAT | os.O_EXCL, 0o600)
        pair = socket.socketpair()
        socket.send_fds(pair[0], [b"x"], [built])
        os.close(built)
        status, told = node.npudoctor("fix", f"{check}.stale-lock", "--yes")
        (action,) = told["actions"]
        assert (status, told["changed"], action["status"]) == (1, False, "refused")
        assert "in use" in action["reason"] and path.exists()
        for end in pair:
            end.close()
        status, told = node.npudoctor("fix", f"{check}.stale-lock", "--yes")
        assert (status, told["changed"], told["failed"]) == (0, True, False), told
        assert not path.exists() and path.parent.exists()
        status, told = node.npudoctor("check", check, "--expect", "none")
        assert told["counts"]["warnings"] == 0

    play(scene)


def abandoned(name: str, uid: int, *names: str) -> Path:
    """A folder of a process that is gone, with its sockets."""

    def make() -> None:
        os.chdir(os.environ["TMPDIR"])
        become(uid)
        os.mkdir(name, 0o700)
        for inner in names:
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(f"{name}/{inner}")
                server.listen()

    forked(make)
    return Path(os.environ["TMPDIR"]) / name


def listening(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    return server


def test_folders_of_training_that_has_ended(play: Play) -> None:
    def scene(node: Node) -> None:
        place = Path("/var/lib/tmp")
        place.mkdir()
        place.chmod(0o1777)
        os.environ["TMPDIR"] = str(place)
        manager = abandoned("pymp-a1b2c3d4", SOMEBODY, "listener-x")
        empty = abandoned("torch-shm-dir-Ab12", SOMEBODY)
        wanted = abandoned("pymp-with-data", SOMEBODY)
        (wanted / "data").write_text("x")
        options = ("temp-files", "--yes", "--owner", str(SOMEBODY))
        status, told = node.npudoctor("fix", *options, "--dry-run")
        planned = [one for one in told["actions"] if one["status"] == "planned"]
        assert [set(one["commands"]) for one in planned] == [
            {f"rm -- {manager}/listener-x", f"rmdir -- {manager}", f"rmdir -- {empty}"}
        ]
        assert manager.exists()
        status, told = node.npudoctor("fix", *options)
        assert (status, told["changed"]) == (1, True), "what holds files is left to a person"
        assert not manager.exists() and not empty.exists() and (wanted / "data").exists()
        assert sorted(one["status"] for one in told["actions"]) == ["applied", "refused"]

    play(scene)


def test_a_folder_that_is_used_again(play: Play) -> None:
    def scene(node: Node) -> None:
        place = Path("/var/lib/tmp")
        place.mkdir()
        place.chmod(0o1777)
        os.environ["TMPDIR"] = str(place)
        folder = abandoned("pymp-a1b2c3d4", SOMEBODY, "listener-x")
        (finding,) = node.ask(temp_files).findings
        assert finding.fix
        (step,) = finding.fix.steps
        dead = folder / "listener-x"
        was = dead.stat()

        # The same name and inode, if the kernel gives it again, and a server that only connect() shows.
        dead.unlink()
        server = listening(dead)
        os.chown(dead, SOMEBODY, SOMEBODY)
        os.utime(dead, ns=(was.st_mtime_ns, was.st_mtime_ns))
        refused(apply_step(step, node.host((SOMEBODY,))), "a socket in it is in use")
        server.close()
        (folder / "new").write_text("x")
        refused(apply_step(step, node.host((SOMEBODY,))), "were not there before")
        (folder / "new").unlink()
        rank = node.start("bash", "-c", RANK, job=None, uid=SOMEBODY)
        assert rank.stdout and rank.stdout.readline()
        os.utime(folder)  # its maker was there when it last changed
        refused(apply_step(step, node.host((SOMEBODY,))), f"process {rank.pid} may have created it")
        assert dead.exists()

    play(scene)


def test_identity_of_what_is_left(play: Play) -> None:
    """Of two files one is in use: the rest of the item is the same item, not a new one."""

    def scene(node: Node) -> None:
        left()
        used = os.open(left(), os.O_RDONLY)
        pair = socket.socketpair()
        socket.send_fds(pair[0], [b"x"], [used])  # where /proc does not show it
        os.close(used)
        status, told = node.npudoctor("fix", "shared-memory", "--yes", "--owner", str(SOMEBODY))
        (action,) = told["actions"]
        assert action["status"] == "refused" and told["changed"] and status == 1
        assert "1 file is kept" in action["reason"]

    play(scene)


def test_what_a_person_would_type() -> None:
    mark = FileMark("a b", 1, 2, 3, 4)
    step = RemoveUnused("/x/", 0, (mark, dataclasses.replace(mark, name="-rf")))
    assert step.lines() == ("rm -- '/x/a b'", "rm -- /x/-rf")


def test_a_folder_that_is_given_to_other_machines_by_then(play: Play) -> None:
    """Of who has a file open over NFS the server knows nothing: neither its /proc nor a lease."""

    def scene(node: Node) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=True)
        os.makedirs("/mnt/ext/fused")
        lock = Path("/mnt/ext/fused/lock")
        lock.touch()
        host = node.host()
        entry = host.running_files.lstat(str(lock))
        assert entry is not None
        step = RemoveUnused(str(lock.parent), entry.uid, (mark_of(str(lock), entry),))
        os.makedirs("/var/lib/nfs")
        table = Path("/var/lib/nfs/etab")
        table.write_text("/mnt/ext\t10.0.0.0/24(rw,sync)\n")
        nfsd = Process(90, "nfsd", "S", 2, 0, 0, 0)
        host.processes.all()[90] = nfsd  # no test can start a thread of the kernel
        refused(apply_step(step, host), "/mnt/ext is exported to other machines over NFS")
        os.makedirs("/var/lib/nfs/other")
        subprocess.run(["mount", "--bind", "/mnt/ext", "/var/lib/nfs/other"], check=True)
        table.write_text("/var/lib/nfs/other\t*(rw)\n")
        refused(apply_step(step, host), "/var/lib/nfs/other is exported")
        table.write_text("/srv\t*(rw)\n")
        assert apply_step(step, host).status is ActionStatus.APPLIED and not lock.exists()

    play(scene)


def test_a_clock_that_was_set(play: Play) -> None:
    """Then a process that made it, or knows of it, seems to be younger than it is."""

    def scene(node: Node) -> None:
        path = left()
        step = step_of(node)
        host = node.host((SOMEBODY,))
        set_since = path.stat().st_ctime + 3600
        host.system.boot_time = lambda: set_since  # type: ignore[method-assign]
        refused(apply_step(step, host), "the clock was changed")
        assert path.exists()

    play(scene)


def test_many_folders_share_a_look(play: Play) -> None:
    """A look at all processes for each of hundreds of folders would take minutes on a busy node."""

    def scene(node: Node) -> None:
        place = Path("/var/lib/tmp")
        place.mkdir(mode=0o1777)
        place.chmod(0o1777)
        os.environ["TMPDIR"] = str(place)
        folders = [abandoned(f"pymp-{number:03}", SOMEBODY) for number in range(30)]
        (found,) = node.ask(temp_files).findings
        looks: list[Host] = []

        def host() -> Host:
            looks.append(node.host((SOMEBODY,)))
            return looks[-1]

        context = FixContext(lambda: pytest.fail("not asked"), host, lambda item: True)
        with Journal("/var/lib/npudoctor", "boot", lambda name: None) as journal:
            done = apply_item(
                ItemResult(Item("temp-files", found), Outcome(ActionStatus.PLANNED)), 0, context, journal
            )
        assert done.outcome.status is ActionStatus.APPLIED, done.outcome
        assert not any(folder.exists() for folder in folders)
        assert 1 <= len(looks) <= 10, len(looks)

    play(scene)
