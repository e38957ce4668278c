"""Real processes in real control groups of jobs that are over are ended, and nothing else ever is."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from tests.support.jobs import Node, playing
from tests.support.others import become, forked

from npudoctor.core.model import Risk
from npudoctor.fixing.actions.apply import apply_step
from npudoctor.fixing.outcome import ActionStatus, Observer, Outcome
from npudoctor.fixing.plan import FixRequest, refusal_of
from npudoctor.fixing.steps.steps import SignalProcess, decode, encode
from npudoctor.host.process.pidfds import Pidfds, pidfd_open

Play = Callable[[Callable[[Node], Any]], Any]
SOMEBODY = 61234
GRACE = 0.3  # seconds, instead of ten
# A parent and its children, which say their pids; each first reads a line.
TREE = "read go; (sleep 600 & echo $!; sleep 600) & sleep 600 & echo $!; wait"


@pytest.fixture
def play(lack: Callable[[str], None]) -> Play:
    """Plays a scene on a node of its own."""
    return playing(lack)


pytestmark = pytest.mark.needs_root


def hasty(step: SignalProcess) -> SignalProcess:
    return dataclasses.replace(step, seconds=GRACE)


def deaf() -> None:
    """In a child: SIGTERM is ignored from now on."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def take(node: Node, step: SignalProcess, at: Observer = lambda name: None, **how: object) -> Outcome:
    return apply_step(step, node.host(**how), at)  # type: ignore[arg-type]


def lives(process: subprocess.Popen[str]) -> bool:
    return process.poll() is None


def test_one_that_obeys_has_time_to(play: Play) -> None:
    def scene(node: Node) -> None:
        process = node.start("sh", "-c", "trap 'sleep 0.2; exit 7' TERM; echo up; while :; do read x; done")
        assert process.stdout and process.stdout.readline()
        outcome = take(node, node.step())
        assert (outcome.status, outcome.changed) == (ActionStatus.APPLIED, True), outcome
        assert process.wait(1) == 7
        assert node.ask().codes == []

    play(scene)


def test_one_that_does_not_is_killed(play: Play) -> None:
    def scene(node: Node) -> None:
        names: list[str] = []
        process = node.start("sleep", "600", preexec_fn=deaf)
        began = time.monotonic()
        outcome = take(node, hasty(node.step()), names.append)
        assert outcome.status is ActionStatus.APPLIED, outcome
        assert GRACE <= time.monotonic() - began < 5
        assert process.wait(1) == -signal.SIGKILL
        pid = process.pid
        assert [name for name in names if name.startswith("after")] == [
            f"after signal TERM to {pid}", f"after signal KILL to {pid}",
        ]  # fmt: skip

    play(scene)


def test_a_stopped_one_is_killed(play: Play) -> None:
    def scene(node: Node) -> None:
        process = node.start("sleep", "600")
        process.send_signal(signal.SIGSTOP)
        assert take(node, hasty(node.step())).status is ActionStatus.APPLIED
        assert process.wait(1) == -signal.SIGKILL

    play(scene)


def test_a_tree_goes_children_first(play: Play) -> None:
    def scene(node: Node) -> None:
        names: list[str] = []
        process = node.start("sh", "-c", TREE)
        process.stdin.write("go\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        children = [int(process.stdout.readline()) for _ in range(2)]  # type: ignore[union-attr]
        time.sleep(0.05)
        step = node.step()
        order = [mark.pid for mark in step.processes]
        parents = {pid: node.host().processes.now(pid).parent for pid in order}  # type: ignore[union-attr]
        assert set(children) < set(order) and len(order) == 4 and order[-1] == process.pid
        assert all(parents[pid] not in order[:at] for at, pid in enumerate(order))
        assert take(node, step, names.append).status is ActionStatus.APPLIED
        sent = [int(name.split()[-1]) for name in names if name.startswith("before")]
        assert sent == [pid for pid in order if pid in sent] and set(children) <= set(sent)
        assert process.wait(1) is not None
        assert node.ask().codes == []
        assert not any(Path(f"/proc/{pid}/exe").exists() for pid in order)

    play(scene)


def test_a_child_that_is_not_proven_keeps_its_parent(play: Play) -> None:
    def scene(node: Node) -> None:
        process = node.start("sh", "-c", "read go; sleep 600 & echo $!; wait")
        step = node.step()
        process.stdin.write("go\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        child = int(process.stdout.readline())  # type: ignore[union-attr]
        outcome = take(node, step)
        assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False)
        assert f"a child {child}" in outcome.reason
        (node.groups / "cgroup.procs").write_text(str(child))  # in no job
        (finding,) = node.ask().findings
        assert finding.fix and finding.fix.risk is Risk.MANUAL
        assert f"a child {child}" in finding.evidence[0]
        assert lives(process) and node.host().processes.now(child)

    play(scene)


def test_a_pid_that_was_given_to_another_is_refused(play: Play) -> None:
    def scene(node: Node) -> None:
        process = node.start("sleep", "600")
        pid, step = process.pid, node.step()
        process.kill()
        process.wait()
        time.sleep(0.05)  # a start time is told in ticks of 10 ms
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        heir = node.start("sleep", "600")  # in the same group, as stale as the other was
        assert heir.pid == pid
        outcome = take(node, step)
        assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False)
        assert "belongs to another process" in outcome.reason
        assert lives(heir)

    play(scene)


def test_one_that_ended_by_itself(play: Play) -> None:
    def scene(node: Node) -> None:
        process = node.start("sleep", "600")
        step = node.step()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        outcome = take(node, step)  # not fetched: a zombie needs no signal
        assert (outcome.status, outcome.changed) == (ActionStatus.ALREADY, False)
        process.wait()
        assert take(node, step).status is ActionStatus.ALREADY

    play(scene)


def test_one_of_several_that_ended_by_itself(play: Play) -> None:
    def scene(node: Node) -> None:
        first, second = node.start("sleep", "600"), node.start("sleep", "600")
        step = node.step()
        first.kill()
        first.wait()
        assert take(node, step).status is ActionStatus.APPLIED
        assert second.wait(1) == -signal.SIGTERM

    play(scene)


def test_a_job_that_lives_again_between_plan_and_act(play: Play) -> None:
    def scene(node: Node) -> None:
        process = node.start("sleep", "600")
        step = node.step()
        keeper = node.stepd()
        outcome = take(node, step)
        assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False)
        assert f"slurmstepd {keeper.pid}" in outcome.reason
        assert lives(process)

    play(scene)


@pytest.mark.parametrize(("says", "word"), [("JobState=RUNNING", "RUNNING"), ("", "does not report")])
def test_a_job_that_slurm_says_lives(play: Play, says: str, word: str) -> None:
    """Between plan and act somebody requeues it, or the controller goes away."""

    def scene(node: Node) -> None:
        process = node.start("sleep", "600")
        step = node.step()
        node.slurm_says(f"JobId={node.job}\n   {says} Reason=None\n")
        outcome = take(node, step)
        assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False)
        assert word in outcome.reason
        assert lives(process)
        status, told = node.npudoctor("fix", "stale-processes", "--yes", "--risk", "caution")
        assert not told["changed"] and lives(process), (status, told)

    play(scene)


def test_moved_into_another_job_between_plan_and_act(play: Play) -> None:
    def scene(node: Node) -> None:
        process = node.start("sleep", "600")
        step = node.step()
        node.move(process.pid, f"{node.job}1")
        outcome = take(node, step)
        assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False)
        assert "control group" in outcome.reason
        assert lives(process)

    play(scene)


def test_a_job_that_lives_again_before_the_second_signal(play: Play) -> None:
    def scene(node: Node) -> None:
        process = node.start("sleep", "600", preexec_fn=deaf)

        def at(name: str) -> None:
            if name.startswith("after signal TERM"):
                node.stepd()

        outcome = take(node, hasty(node.step()), at)
        assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, True)
        assert lives(process)

    play(scene)


def test_killed_between_the_signals(play: Play) -> None:
    """npudoctor dies after the first signal: the next run finds what is left, and ends it."""

    def scene(node: Node) -> None:
        process, deafer = node.start("sleep", "600"), node.start("sleep", "600", preexec_fn=deaf)
        step = hasty(node.step())

        def at(name: str) -> None:
            if name == f"after signal TERM to {deafer.pid}":
                os.kill(os.getpid(), signal.SIGKILL)

        pid = os.fork()
        if pid == 0:
            take(node, step, at)
            os._exit(0)
        assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        assert process.wait(1) == -signal.SIGTERM and lives(deafer)
        left = node.step()
        assert [mark.pid for mark in left.processes] == [deafer.pid]
        assert take(node, hasty(left)).status is ActionStatus.APPLIED
        assert deafer.wait(1) == -signal.SIGKILL

    play(scene)


def test_many_at_once(play: Play) -> None:
    """All have the same time to end, and none of another job or user is touched."""

    def scene(node: Node) -> None:
        ranks = [node.start("sleep", "600", preexec_fn=deaf if at % 2 else None) for at in range(40)]
        others = [node.start("sleep", "600", job=None), node.start("sleep", "600", job=f"{node.job}1")]
        keeper = node.stepd(f"{node.job}1")
        began = time.monotonic()
        assert take(node, hasty(node.step())).status is ActionStatus.APPLIED
        assert time.monotonic() - began < 5
        assert {rank.wait(1) for rank in ranks} == {-signal.SIGTERM, -signal.SIGKILL}
        assert all(map(lives, [*others, keeper]))

    play(scene)


@pytest.mark.parametrize("hard", [None, 120])
def test_more_than_may_be_open_at_once(play: Play, hard: Optional[int]) -> None:
    """Eight ranks with their workers are more processes than a shell allows open files."""

    def scene(node: Node) -> None:
        parent = node.start("bash", "-c", "read go; for i in $(seq 100); do sleep 600 & done; echo up; wait")
        assert parent.stdin and parent.stdout
        parent.stdin.write("go\n")
        parent.stdin.flush()
        assert parent.stdout.readline()
        step = hasty(node.step())
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (80, hard or resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
        outcome = take(node, step)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 80
        if hard is None:
            assert outcome.status is ActionStatus.APPLIED, outcome
            assert parent.wait(1) is not None
        else:
            assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False)
            assert "ulimit -n" in outcome.reason and lives(parent)

    play(scene)


def test_another_users(play: Play) -> None:
    def scene(node: Node) -> None:
        process = node.start("sleep", "600", uid=SOMEBODY)
        step = node.step()
        assert step.owner == SOMEBODY
        outcome = take(node, step)
        assert outcome.status is ActionStatus.REFUSED and f"--owner {SOMEBODY}" in outcome.reason
        assert lives(process)
        assert take(node, step, owners=(SOMEBODY,)).status is ActionStatus.APPLIED
        assert process.wait(1) == -signal.SIGTERM

    play(scene)


def test_as_a_user(play: Play) -> None:
    """One's own is ended without root; root's is not."""

    def scene(node: Node) -> None:
        process, roots = node.start("sleep", "600", uid=SOMEBODY), node.start("sleep", "600")
        node.move(roots.pid, f"{node.job}1")

        def as_somebody() -> dict[int, ActionStatus]:
            become(SOMEBODY)
            found = [one.fix.steps[0] for one in node.ask().findings if one.fix]
            return {step.owner: take(node, step).status for step in found}  # type: ignore[attr-defined,arg-type]

        assert forked(as_somebody) == {SOMEBODY: ActionStatus.APPLIED, 0: ActionStatus.REFUSED}
        assert process.wait(1) == -signal.SIGTERM and lives(roots)

    play(scene)


def test_where_processes_are_hidden(play: Play) -> None:
    def scene(node: Node) -> None:
        process = node.start("sleep", "600", uid=SOMEBODY)
        step = node.step()
        subprocess.run(["mount", "-o", "remount,hidepid=2", "/proc"], check=True)

        def as_somebody() -> Outcome:
            become(SOMEBODY)
            return take(node, step)

        outcome = forked(as_somebody)
        assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False)
        assert lives(process)

    play(scene)


def test_rights_of_several_users(play: Play) -> None:
    """A program of root's that somebody started: /proc says that it is root's, its real user is another."""

    def scene(node: Node) -> None:
        node.start("sleep", "600", preexec_fn=lambda: os.setresuid(SOMEBODY, 0, 0))
        (finding,) = node.ask().findings
        assert finding.fix and finding.fix.risk is Risk.MANUAL
        assert "several users" in finding.evidence[0]

    play(scene)


def test_ourselves_and_our_parents(play: Play) -> None:
    def scene(node: Node) -> None:
        def inside() -> None:
            node.move(os.getpid(), node.job)  # with all that it starts

            def deeper() -> tuple[list[str], Outcome]:
                parent = node.host().processes.now(os.getppid())
                assert parent is not None
                groups = node.host().processes.cgroups(parent.pid)
                data = {"pid": parent.pid, "started": parent.started, "cgroups": groups}
                step = decode({"kind": "SignalProcess", "processes": (data,), "owner": 0})
                return node.ask().codes, take(node, step)  # type: ignore[arg-type]

            codes, outcome = forked(deeper)
            assert codes == []
            assert (outcome.status, outcome.changed) == (ActionStatus.REFUSED, False)
            assert "belongs to npudoctor itself" in outcome.reason

        forked(inside)

    play(scene)


def test_somebodys_login_in_the_group_of_a_job(play: Play) -> None:
    """As pam_slurm_adopt puts it there."""

    def scene(node: Node) -> None:
        login = "printf sshd > /proc/self/comm; echo up; read go; sleep 600 & wait"
        process = node.start("bash", "-c", login)
        assert process.stdout and process.stdout.readline()
        (finding,) = node.ask().findings
        assert finding.fix and finding.fix.risk is Risk.MANUAL
        assert "(sshd)" in finding.evidence[0]

    play(scene)


def without_pidfds() -> Pidfds:
    def no(pid: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    return Pidfds(no)


def refused(node: Node, pidfds: Optional[Pidfds], *, yes: bool, risk: Risk) -> Optional[str]:
    (finding,) = node.ask().findings
    return refusal_of(finding, node.host(pidfds=pidfds), FixRequest(("stale-processes",), yes=yes, risk=risk))


def test_a_kernel_without_pidfds(play: Play) -> None:
    def scene(node: Node) -> None:
        process = node.start("sleep", "600", preexec_fn=deaf)
        pidfds = without_pidfds()
        reason = refused(node, pidfds, yes=True, risk=Risk.CAUTION)
        assert reason and "--yes never ends" in reason
        assert refused(node, pidfds, yes=False, risk=Risk.SAFE) is None, "a person is asked"
        assert take(node, hasty(node.step()), pidfds=pidfds).status is ActionStatus.APPLIED
        assert process.wait(1) == -signal.SIGKILL

        other = node.start("sleep", "600")
        step = node.step()
        node.stepd()
        assert take(node, step, pidfds=pidfds).status is ActionStatus.REFUSED
        assert lives(other)

    play(scene)


def test_never_without_the_word_caution(play: Play) -> None:
    def scene(node: Node) -> None:
        node.start("sleep", "600")
        reason = refused(node, None, yes=True, risk=Risk.SAFE)
        assert reason and "--risk caution" in reason
        assert refused(node, None, yes=True, risk=Risk.CAUTION) is None
        (finding,) = node.ask().findings
        assert finding.fix is not None
        bold = dataclasses.replace(finding, fix=dataclasses.replace(finding.fix, risk=Risk.SAFE))
        request = FixRequest(("stale-processes",), yes=True, risk=Risk.SAFE)
        assert refusal_of(bold, node.host(), request) == reason, "whatever the author of a check says"

    play(scene)


def test_one_that_hangs_in_the_kernel(play: Play, lack: Callable[[str], None], tmp_path: Path) -> None:
    """The freezer of version 1 holds a process in state D, against SIGKILL too."""

    def scene(node: Node) -> Optional[str]:
        mounting = ["mount", "-t", "cgroup", "-o", "freezer", "none", str(tmp_path)]
        done = subprocess.run(mounting, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr or "mount"
        process = node.start("sleep", "600")
        folder = tmp_path / f"npudoctor-{node.job}"
        folder.mkdir()
        try:
            (folder / "cgroup.procs").write_text(str(process.pid))
            (folder / "freezer.state").write_text("FROZEN")
            time.sleep(0.1)
            outcome = take(node, hasty(node.step()))
            (folder / "freezer.state").write_text("THAWED")
            assert outcome.status is ActionStatus.FAILED
            assert outcome.reason == (
                f"process {process.pid} is in uninterruptible sleep: only a reboot ends it"
            )
            assert process.wait(1) in (-signal.SIGTERM, -signal.SIGKILL)
        finally:
            (folder / "freezer.state").write_text("THAWED")
            process.kill()
            process.wait()
            time.sleep(0.05)
            folder.rmdir()
        return None

    missing = play(scene)
    if missing:
        lack(f"no freezer of version 1: {missing}")


def test_a_namespace_whose_proc_is_anothers() -> None:
    """Pids mean other processes there than /proc says."""

    def inner() -> Outcome:
        step = decode(
            {
                "kind": "SignalProcess",
                "processes": [{"pid": 1 << 22, "started": 1, "cgroups": []}],
                "owner": 0,
            }
        )
        return apply_step(step, Node(Path("/nonexistent"), 1).host())

    def outer() -> Outcome:
        from tests.support import ipc

        ipc.unshare("pid")
        return forked(inner)

    outcome = forked(outer)
    assert (outcome.status, outcome.reason) == (
        ActionStatus.REFUSED, "/proc shows a pid namespace other than npudoctor's",
    )  # fmt: skip


def test_the_step_in_the_journal_is_the_step() -> None:
    mark = {"pid": 7, "started": 8, "cgroups": ["/a", "/b"]}
    step = decode({"kind": "SignalProcess", "processes": [mark], "owner": 9, "seconds": 1.5})
    assert isinstance(step, SignalProcess) and step.processes[0].cgroups == ("/a", "/b")
    assert decode(encode(step)) == step
    assert step.lines() == ("kill -TERM 7", "sleep 1.5; kill -KILL 7")


def test_pidfds_by_number() -> None:
    """As where Python knows neither call."""
    from npudoctor.fixing.actions.syscalls import signal_process

    child = subprocess.Popen(["sleep", "600"])

    def by_number() -> None:
        del os.pidfd_open
        del signal.pidfd_send_signal
        descriptor = pidfd_open(child.pid)
        signal_process(descriptor, signal.SIGUSR1)
        with pytest.raises(ProcessLookupError):
            pidfd_open(1 << 22)

    forked(by_number)
    assert child.wait(5) == -signal.SIGUSR1


def test_the_whole_command(play: Play) -> None:
    """Sick, mended, well: by the command that a person types."""

    def scene(node: Node) -> None:
        npudoctor = node.npudoctor
        process, deafer = node.start("sleep", "600"), node.start("sleep", "600", uid=SOMEBODY)
        foreign = node.start("sleep", "600", job=None)
        status, told = npudoctor("fix", "stale-processes", "--yes", "--risk", "caution", "--dry-run")
        assert status == 1 and told["would_change"] and not told["changed"] and lives(process)
        status, told = npudoctor("fix", "stale-processes", "--yes", "--risk", "caution")
        endings = {one["commands"][0]: one["status"] for one in told["actions"]}
        assert endings == {f"kill -TERM {process.pid}": "applied", f"kill -TERM {deafer.pid}": "refused"}
        assert (status, told["changed"]) == (1, True)
        assert process.wait(1) == -signal.SIGTERM and lives(deafer)
        status, told = npudoctor("check", "stale-processes", "--expect", "none")
        assert told["counts"]["warnings"] == 1
        options = ("--yes", "--risk", "caution", "--owner", str(SOMEBODY))
        status, told = npudoctor("fix", "stale-processes", *options)
        assert (status, told["changed"], told["failed"]) == (0, True, False)
        assert deafer.wait(1) == -signal.SIGTERM and lives(foreign)
        status, told = npudoctor("check", "stale-processes", "--expect", "none")
        assert (status, told["verdict"]) == (0, "ready")
        events = [
            json.loads(line)["event"]
            for file in sorted(Path("/var/lib/npudoctor/journal").iterdir())
            for line in file.read_text().splitlines()
        ]
        assert events == ["before", "after", "end"] * 2

    play(scene)
