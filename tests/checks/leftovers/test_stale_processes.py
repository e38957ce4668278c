"""stale-processes: what is proven left behind, what is only named, and all that must never be named."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Union

import pytest
from tests.checks.leftovers.stale_machine import (
    CONTAINER,
    GPU,
    ID,
    JOB,
    NPU,
    OURS,
    SERVICE,
    SHELL,
    USER,
    judged,
    machine,
    pids,
    process,
    slurm,
    smi,
)

from npudoctor import Risk, Severity, SignalProcess, Status
from npudoctor.checks.leftovers.stale_processes import stale_processes
from npudoctor.host import Options
from npudoctor.host.process.commands import Answer
from npudoctor.testing import Asked, Content, ask, fake_host, unreadable

IN_JOB = {"SLURM_JOB_ID": "77"}


def test_an_ordinary_machine_is_quiet_and_waits_for_nothing() -> None:
    told = judged({**process(70), **process(71, "sshd"), **process(72, "bash", state="Z")})
    assert (told.status, told.codes) == (Status.OK, [])
    host = machine(process(70))
    assert host.clock.steady() == 0.0


def test_a_job_that_is_over_left_processes() -> None:
    told = judged(
        {**process(70, cgroup=JOB, uid=1001), **process(72, "pt_main_thread", cgroup=JOB, uid=1001)},
        commands=slurm({}),
    )
    (finding,) = told.findings
    assert (finding.code, finding.severity) == ("stale-processes.left-behind", Severity.WARNING)
    assert "72 (pt_main_thread), 70 (python3)" in finding.message
    assert "user anna" in finding.evidence[1] and "python3 train.py" in finding.evidence[1]
    assert all("Slurm job 4242" in line for line in finding.evidence)
    assert finding.fix and finding.fix.risk is Risk.CAUTION and finding.fix.needs_root
    assert finding.fix.commands == ("kill -TERM 70 72", "sleep 10; kill -KILL 70 72")
    assert "cannot be undone" in finding.fix.title and finding.fix.undo_commands == ()


def test_each_job_container_and_user_is_an_item_of_its_own() -> None:
    told = judged(
        {
            **process(70, cgroup=JOB, uid=1001),
            **process(71, cgroup=JOB, uid=1002),
            **process(72, cgroup=CONTAINER, uid=1001),
            **process(73, cgroup=CONTAINER, uid=1001, parent=72),
        },
        commands=slurm({}),
    )
    found = [step for one in told.findings if one.fix for step in one.fix.steps]
    steps = [step for step in found if isinstance(step, SignalProcess)]
    assert {(tuple(mark.pid for mark in step.processes), step.owner) for step in steps} == {
        ((70,), 1001), ((71,), 1002), ((73, 72), 1001),
    }  # fmt: skip
    assert any(ID[:12] in line for one in told.findings for line in one.evidence)


SESSION = f"{JOB}1:name=systemd:/user.slice/user-1001.slice/session-3.scope\n"
SETUID = "Uid:\t1001\t0\t0\t0\n"


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (process(71, parent=70), "a child 71"),
        (process(71, cgroup=JOB, parent=70, uid=1002), "a child 71"),
        ({**process(71, cgroup=JOB, uid=1001, parent=70), **process(72, parent=71)}, "a child 72"),
        ({"/proc/70/status": SETUID}, "several users"),
        ({"/proc/70/cgroup": SESSION}, "session-3"),
        ({**process(70, cgroup=JOB, uid=1001, parent=60), **process(60, "sshd-session")}, "sshd-session"),
    ],
)  # fmt: skip
def test_what_npudoctor_does_not_end_by_itself(more: dict[str, Content], word: str) -> None:
    told = judged({**process(70, cgroup=JOB, uid=1001), **more}, commands=slurm({}))
    found = [one for one in told.findings if any("pid 70," in line for line in one.evidence)]
    (finding,) = found
    assert finding.code == "stale-processes.left-behind"
    assert finding.fix and finding.fix.risk is Risk.MANUAL and finding.fix.commands[0].startswith("ps ")
    assert any(word in line for line in finding.evidence), finding.evidence


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "PENDING"])
def test_a_job_that_lives_between_two_steps(state: str) -> None:
    """No slurmstepd is here until the next srun; what a step left running is of a living job."""
    answer = f"JobId=4242 JobName=ray\n   UserId=anna(1001)\n   JobState={state} Reason=None\n"
    told = judged(process(70, cgroup=JOB, uid=1001), commands=slurm({"4242": answer}))
    assert "stale-processes.left-behind" not in told.codes


@pytest.mark.parametrize(
    ("commands", "word"),
    [
        ({}, "no scontrol in"),  # though there is a slurmd
        (slurm({"4242": Answer((), "timeout")}), "does not report that job 4242 has ended"),
        (
            slurm({"4242": Answer((), "exited", 1, "", "Unable to contact slurm controller")}),
            "does not report",
        ),
        (slurm({"4242": "JobState=COMPLETING\n"}), "does not report"),
    ],
)
def test_a_job_of_which_slurm_does_not_say_that_it_is_over(commands: Any, word: str) -> None:
    (finding,) = judged(process(70, cgroup=JOB, uid=1001), commands=commands).findings
    assert finding.code == "stale-processes.left-behind"
    assert finding.fix and finding.fix.risk is Risk.MANUAL
    assert word in finding.evidence[0]


@pytest.mark.parametrize("group", [JOB, CONTAINER])
@pytest.mark.parametrize("adopter", [1, 50])
def test_one_whose_keeper_left_no_trace_is_not_passed_over(group: str, adopter: int) -> None:
    """conmon and slurmstepd gone, no daemon, no device, nothing of Python: only its control group tells."""
    without = process(30, "sshd")  # instead of slurmd
    here = {
        **without,
        **process(50, "systemd"),
        **process(71, "pt_main_thread", cgroup=group, parent=adopter),
    }
    assert judged({**here, **process(72, "worker", cgroup=group, parent=71)}).codes == [
        "stale-processes.left-behind"
    ]


def test_no_name_is_ever_killed() -> None:
    told = judged({**process(70, cgroup=JOB), **process(71, "python3", state="Z"), **process(72, state="D")})
    assert len(told.findings) == 3
    lines = [line for one in told.findings if one.fix for line in one.fix.commands]
    assert all(line.startswith("ps ") or re.fullmatch(r"(sleep 10; )?kill -\w+ 70", line) for line in lines)


@pytest.mark.parametrize(
    "files",
    [
        process(70),  # nohup: an orphan in a login's group
        process(70, cgroup="0::/\n"),
        {**process(70, cgroup=JOB), **process(60, "slurmstepd", argv=("slurmstepd: [4242.0]",))},
        {**process(70, cgroup=CONTAINER), **process(60, "containerd-shim", argv=("x", "moby", "-id", ID))},
        # In a session that somebody keeps.
        {**process(60, "tmux: server", cgroup=JOB), **process(70, cgroup=JOB, parent=60)},
        {**process(60, "screen", cgroup=JOB), **process(70, cgroup=JOB, parent=60)},
        {**process(60, "zellij", cgroup=JOB), **process(70, cgroup=JOB, parent=60)},
        {**process(60, "mosh-server", cgroup=JOB), **process(70, cgroup=JOB, parent=60)},
        {**process(60, "SCREEN", cgroup=JOB), **process(61, parent=60), **process(70, cgroup=JOB, parent=61)},
        process(70, cgroup=JOB, argv=("/opt/python3", "-m", "ipykernel_launcher", "-f", "x.json")),
        process(70, cgroup=JOB, argv=("python3", "/opt/bin/jupyter-lab")),
        process(70, cgroup=f"0::/user.slice/user-1000.slice/user@1000.service/docker-{ID}.scope\n"),
    ],
)
def test_what_is_kept_or_not_proven_is_not_spoken_of(files: Mapping[str, Content]) -> None:
    told = judged(files)
    assert (told.status, told.codes) == (Status.OK, [])


@pytest.mark.parametrize("mark", [{"/.dockerenv": ""}, {"/proc/1/cgroup": unreadable()}])
def test_where_not_all_is_seen_nothing_is_proven(mark: Mapping[str, Content]) -> None:
    told = judged({**process(70, cgroup=JOB), **mark})
    assert (told.status, told.codes, told.advisory) == (Status.UNKNOWN, [], True)
    assert judged({**process(70), **mark}).status is Status.OK, "it matters to nobody"


def test_our_own_ancestors_are_not_judged() -> None:
    files: dict[str, Content] = {"/proc/980/cgroup": JOB, f"/proc/{OURS}/cgroup": JOB}
    assert judged(files).codes == []


class TestOutlived:
    """What SLURM_JOB_ID and Slurm itself say."""

    def test_slurm_does_not_know_the_job(self) -> None:
        told = judged(process(70, variables=IN_JOB), commands=slurm({}))
        (finding,) = told.findings
        assert (finding.code, finding.severity) == ("stale-processes.outlived-job", Severity.INFO)
        assert "Slurm no longer knows job 77" in finding.evidence[0]
        assert finding.fix and all(line.startswith("ps ") for line in finding.fix.commands)

    def test_the_pids_are_in_order(self) -> None:
        files: dict[str, Content] = {}
        for pid, job in ((70, "77"), (71, "78"), (72, "77")):
            files.update(process(pid, variables={"SLURM_JOB_ID": job}))
        (finding,) = judged(files, commands=slurm({})).findings
        assert finding.fix is not None and finding.fix.commands[-1].endswith("-p 70,71,72")
        assert [line.split(",")[0] for line in finding.evidence] == ["pid 70", "pid 71", "pid 72"]

    @pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED", "NODE_FAIL", "TIMEOUT"])
    def test_slurm_says_that_it_is_over(self, state: str) -> None:
        answer = f"JobId=77 JobName=x\n   JobState={state} Reason=None Dependency=(null)\n"
        told = judged(process(70, variables=IN_JOB), commands=slurm({"77": answer}))
        assert told.codes == ["stale-processes.outlived-job"]
        assert state in told.findings[0].evidence[0]

    @pytest.mark.parametrize(
        "answer",
        [
            "JobId=77\n   JobState=RUNNING\n",
            "JobId=77\n   JobState=COMPLETING\n",
            "JobId=77\n JobState=COMPLETED\nJobId=78 ArrayJobId=77\n JobState=RUNNING\n",
            "",
            "JobId=77\n",
            Answer(
                ("scontrol",), "exited", 1, "", "slurm_load_jobs error: Unable to contact slurm controller\n"
            ),
            Answer(("scontrol",), "timeout"),
            Answer(("scontrol",), "flooded", None, "JobState=COMPLETED"),
            Answer(("scontrol",), "untrusted"),
        ],
    )
    def test_not_proven(self, answer: Union[str, Answer]) -> None:
        assert judged(process(70, variables=IN_JOB), commands=slurm({"77": answer})).codes == []

    @pytest.mark.parametrize(
        "files",
        [
            {**process(70, variables=IN_JOB), **process(60, "slurmstepd", argv=("slurmstepd: [77.batch]",))},
            process(70, "slurmstepd", variables=IN_JOB, argv=("slurmstepd: [78.0]",)),
            process(70, variables={"SLURM_JOB_ID": "x"}),
            process(70, variables={"SLURM_JOB_ID": ""}),
            {**process(60, "tmux: server", variables=IN_JOB), **process(70, variables=IN_JOB, parent=60)},
            process(70, cgroup=USER, variables=IN_JOB),
            {**process(70, variables=IN_JOB), "/proc/70/environ": unreadable()},
            process(70, variables=IN_JOB, state="Z"),
        ],
    )
    def test_quiet(self, files: Mapping[str, Content]) -> None:
        assert "stale-processes.outlived-job" not in judged(files, commands=slurm({})).codes

    def test_without_slurm_nobody_is_asked(self) -> None:
        host = machine(process(70, variables=IN_JOB))
        assert judged(process(70, variables=IN_JOB)).codes == []
        assert host.commands.find("scontrol") is None


class TestStuck:
    """State D, twice."""

    def test_with_a_device(self) -> None:
        files = {**NPU, **process(70, state="D", descriptors={3: "/dev/davinci1"})}
        told = judged(files)
        (finding,) = told.findings
        assert (finding.code, finding.severity) == ("stale-processes.stuck", Severity.WARNING)
        assert "/dev/davinci1" in finding.evidence[0] and finding.action.value == "reboot"

    def test_without_one_it_is_information(self) -> None:
        (finding,) = judged(process(70, "dd", state="D")).findings
        assert (finding.code, finding.severity) == ("stale-processes.stuck", Severity.INFO)

    @pytest.mark.parametrize(
        "after",
        [
            process(70, state="S"),
            process(70, state="D", cpu=8),
            process(70, state="D", started=2000),
            {"/proc/70/stat": unreadable()},
        ],
    )
    def test_it_moved_on(self, after: Mapping[str, Content]) -> None:
        assert judged(process(70, state="D"), after).codes == []

    def test_the_kernels_own_rest_in_it(self) -> None:
        assert judged(process(70, "jbd2/sda1-8", state="D", parent=2, argv=())).codes == []


class TestZombie:
    """Ended, and not fetched."""

    def test_of_training(self) -> None:
        files = {**process(60, "torchrun"), **process(70, "pt_main_thread", state="Z", parent=60, argv=())}
        (finding,) = judged(files).findings
        assert (finding.code, finding.severity) == ("stale-processes.zombie", Severity.INFO)
        assert "process 60 (torchrun)" in finding.evidence[0]
        assert finding.fix and finding.fix.commands[0].endswith("-p 60"), "its parent is to be looked at"

    def test_with_living_threads(self) -> None:
        (finding,) = judged(process(70, "trainer", state="Z", threads=4)).findings
        assert "3 of its threads are still alive" in finding.evidence[0]

    def test_quiet(self) -> None:
        assert judged(process(70, "sh", state="Z")).codes == [], "of another program"
        assert judged(process(70, state="Z"), {"/proc/70/stat": unreadable()}).codes == [], "fetched since"


class TestCompileWorker:
    """Compilers with nobody to compile for."""

    SERVER = ("python", "/opt/lib/mindspore/_extends/remote/kernel_build_server_ascend.py", "1")
    POOL = ("python3", "-c", "from multiprocessing.forkserver import main; main(9, 11, ['__main__'])")
    MAPS = "7f00-7f01 r-xp 00000000 08:01 77    /usr/local/Ascend/ascend-toolkit/8.0/lib64/libtvm.so\n"

    def test_orphans(self) -> None:
        files = {**process(70, argv=self.SERVER), **process(71, argv=self.POOL, maps=self.MAPS)}
        told = judged(files)
        (finding,) = told.findings
        assert (finding.code, finding.severity) == ("stale-processes.compile-worker", Severity.INFO)
        assert pids(told, "compile-worker") == [70, 71]

    @pytest.mark.parametrize(
        "files",
        [
            {**process(60), **process(70, argv=SERVER, parent=60)},
            process(70, argv=POOL),
            process(70, argv=("vi", "notes.txt")),
            process(70, cgroup=USER, argv=SERVER),
        ],
    )
    def test_quiet(self, files: Mapping[str, Content]) -> None:
        assert judged(files).codes == []


class TestIdle:
    """Holds a device, and does nothing at two looks."""

    HOLDER = process(70, descriptors={3: "/dev/davinci1", 4: "/dev/davinci_manager"})

    def test_it_is_only_named(self) -> None:
        told = judged({**NPU, **self.HOLDER}, commands=smi(50, 0))
        (finding,) = told.findings
        assert (finding.code, finding.severity) == ("stale-processes.idle", Severity.INFO)
        assert told.status is Status.OK
        assert finding.evidence[0].endswith("/dev/davinci1")
        assert "looks the same" in finding.evidence[1]
        assert finding.fix and finding.fix.risk is Risk.MANUAL
        assert all(line.startswith("ps ") for line in finding.fix.commands), "never signalled"

    def test_a_gpus(self) -> None:
        files = {**GPU, **process(70, descriptors={3: "/dev/nvidia0"})}
        assert judged(files, commands={"nvidia-smi": "0\n0\n"}).codes == ["stale-processes.idle"]
        for said in ("0\n7\n", "[N/A]\n", "", Answer(("nvidia-smi",), "timeout")):
            assert judged(files, commands={"nvidia-smi": said}).codes == []

    @pytest.mark.parametrize(
        "after",
        [
            process(70, cpu=8, descriptors={3: "/dev/davinci1"}),
            process(70, state="R", descriptors={3: "/dev/davinci1"}),
            process(70, started=2000),
            {"/proc/70/stat": unreadable()},
        ],
    )
    def test_it_did_something(self, after: Mapping[str, Content]) -> None:
        assert judged({**NPU, **self.HOLDER}, after, commands=smi(0, 0)).codes == []

    def test_the_ai_core_is_busy(self) -> None:
        assert judged({**NPU, **self.HOLDER}, commands=smi(0, 3)).codes == []

    def test_the_ai_core_is_busy_at_the_second_look(self) -> None:
        host = machine({**NPU, **self.HOLDER}, commands=smi(0, 0))
        answers = iter((smi(0, 0)["npu-smi"], smi(0, 90)["npu-smi"]))
        run = host.commands.run

        def changing(argv, **more):  # type: ignore[no-untyped-def]
            host.commands._answers["npu-smi"] = next(answers)  # type: ignore[attr-defined]
            return run(argv, **more)

        host.commands.run = changing  # type: ignore[method-assign]
        assert ask(stale_processes, host).codes == []
        assert next(answers, None) is None, "asked twice"

    @pytest.mark.parametrize(
        "answer", ["", "dcmi model initialized failed, because the device is used. ret is -8020\n"]
    )
    def test_nobody_says_how_busy_it_is(self, answer: str) -> None:
        assert judged({**NPU, **self.HOLDER}, commands={"npu-smi": answer}).codes == []
        assert judged({**NPU, **self.HOLDER}).codes == []

    @pytest.mark.parametrize(
        "files",
        [
            process(70, cgroup=SERVICE, descriptors={3: "/dev/davinci1"}),
            process(70, cgroup=USER, descriptors={3: "/dev/davinci1"}),
            process(70, argv=("python3", "-m", "ipykernel_launcher"), descriptors={3: "/dev/davinci1"}),
            {**process(60, "tmux: server"), **process(70, parent=60, descriptors={3: "/dev/davinci1"})},
            process(70, descriptors={3: "/dev/davinci_manager"}),
            {**process(70), "/proc/70/fd": unreadable()},
        ],
    )
    def test_never_named(self, files: Mapping[str, Content]) -> None:
        assert judged({**NPU, **files}, commands=smi(0, 0)).codes == []

    def test_a_launcher_of_one_that_works(self) -> None:
        files = {**NPU, **self.HOLDER, **process(71, descriptors={3: "/dev/davinci1"})}
        assert judged(files, commands=smi(0, 0)).codes == ["stale-processes.idle"]
        after = process(71, cpu=9, descriptors={3: "/dev/davinci1"})
        assert judged(files, after, commands=smi(0, 0)).codes == []

    def test_what_is_proven_stale_is_not_named_twice(self) -> None:
        files = {**NPU, **process(70, cgroup=JOB, descriptors={3: "/dev/davinci1"})}
        assert judged(files, commands=smi(0, 0)).codes == ["stale-processes.left-behind"]

    def test_which_chip_a_node_is(self) -> None:
        """Where the table does not say which chip a node is, all must be idle."""
        odd = smi(0, 9)["npu-smi"]
        assert isinstance(odd, str)
        odd = odd.replace("| 0     910B3", "| 4     910B3").replace("| 1     910B3", "| 5     910B3")
        files = {**NPU, **process(70, descriptors={3: "/dev/davinci0"})}
        assert judged(files, commands={"npu-smi": odd}).codes == []
        assert judged(files, commands=smi(0, 9)).codes == ["stale-processes.idle"]


class TestLimits:
    """--user and --job."""

    FILES: ClassVar = {
        **process(70, cgroup=JOB, uid=1001),
        **process(71, cgroup=JOB.replace("4242", "4243")),
        **process(72, cgroup=CONTAINER, variables={"SLURM_JOB_ID": "5"}),
        **process(73, cgroup=CONTAINER, variables={"SLURM_ARRAY_JOB_ID": "9", "SLURM_ARRAY_TASK_ID": "3"}),
    }

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            (Options(), [70, 71, 72, 73]),
            (Options(only_user="anna"), [70]),
            (Options(only_user="0"), [71, 72, 73]),
            (Options(only_job="4242"), [70]),
            (Options(only_job="4243"), [71]),
            (Options(only_job="5"), [72]),
            (Options(only_job="9_3"), [73]),
            (Options(only_job="9"), []),
            (Options(only_job="424"), []),
            (Options(only_user="anna", only_job="4243"), []),
        ],
    )
    def test_limits(self, options: Options, named: list[int]) -> None:
        assert sorted(pids(judged(self.FILES, options=options), "left-behind")) == named


def test_hundreds_do_not_flood() -> None:
    files: dict[str, Content] = {}
    for pid in range(100, 400):
        files.update(process(pid, cgroup=JOB, argv=("python3", "x" * 5000)))
    (finding,) = judged(files).findings
    assert len(finding.evidence) == 21 and "280 more" in finding.evidence[-1]
    assert max(map(len, finding.evidence)) < 400
    assert len(finding.message) < 200


def test_an_image_runs_nothing() -> None:
    assert ask(stale_processes, fake_host(root="/srv/image")).status is Status.SKIPPED


def test_a_shell_is_no_session_to_keep() -> None:
    assert judged({**process(60, "bash", cgroup=SHELL), **process(70, cgroup=JOB, parent=60)}).codes == [
        "stale-processes.left-behind"
    ]


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    many: dict[str, Content] = {}
    for pid in range(100, 130):
        many.update(process(pid, cgroup=JOB))
    yield judged({**many, **process(71, cgroup=CONTAINER)})
    said = {"77": "JobId=77\n   JobState=COMPLETED\n"}
    files = {
        **process(70, variables={"SLURM_JOB_ID": "77"}),
        **process(71, variables={"SLURM_JOB_ID": "78"}),
    }
    yield judged(files, commands=slurm(said))
    yield judged(
        {**NPU, **process(70, state="D", descriptors={3: "/dev/davinci1"}), **process(71, state="D")}
    )
    yield judged({**process(70, state="Z", parent=60), **process(71, state="Z", threads=3)})
    yield judged(process(70, argv=("python", "/opt/kernel_build_server_akg.py")))
    yield judged({**NPU, **process(70, descriptors={3: "/dev/davinci1"})}, commands=smi(0, 0))
    yield judged({**process(70, cgroup=JOB), "/.dockerenv": ""})
