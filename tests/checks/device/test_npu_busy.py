"""npu-busy: nobody else holds the NPUs that this job gets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.checks.device.npu_machine import CONTAINER, INFO, screen, told

from npudoctor import Severity, Status
from npudoctor.checks.device.npu_busy import npu_busy
from npudoctor.host import Host, Options
from npudoctor.host.devices.accelerators import Accelerators
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.process.commands import CommandResult
from npudoctor.host.system import System
from npudoctor.testing import OUR_PID, Asked, Content, ask, fake_host, link, process_files

BUSY = screen("c_910b4_25.0.1_busy")
OLD = screen("b_910a_21.0.3")
LATE = screen("f_910b3_26.0.0_container")
SELF = OUR_PID
USERS: dict[str, Content] = {"/etc/passwd": "root:x:0:0::/root:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\n"}


def me(session: int = 500, group: str = "/user.slice/user-0.slice/session-1.scope") -> dict[str, Content]:
    """Our own process, below a shell."""
    return {**one(SELF, 500, session, group=group), **one(500, 1, 500, name="bash", group=group)}


def one(
    pid: int, parent: int = 1, session: int = 1, *, name: str = "python3", uid: int = 0, group: str = "/"
) -> dict[str, Content]:
    """A process with its session and control group."""
    files = process_files(pid, name, parent=parent, uid=uid)
    stat = str(files[f"/proc/{pid}/stat"]).split(" ")
    stat[5] = str(session)
    return {**files, f"/proc/{pid}/stat": " ".join(stat), f"/proc/{pid}/cgroup": f"0::{group}\n"}


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, and each way of putting it."""
    yield ask(npu_busy, fake_host())
    yield told(npu_busy, BUSY, USERS, me(), one(71001, uid=1001))
    yield told(npu_busy, screen("c_910b2_24.1.0_idle").replace("3320 ", "31877"), count=8)
    yield told(npu_busy, BUSY, me(), one(71001, 600, 500))
    yield told(npu_busy, OLD, count=4)
    yield told(npu_busy, LATE, CONTAINER, me(), one(77))
    without_core = LATE.replace("| 0                    0    / 0 ", "|                      0    / 0 ")
    yield told(npu_busy, without_core, CONTAINER)
    yield told(npu_busy, LATE.replace("5990", "90  ").replace("9403", "3503"), CONTAINER, me())
    yield told(npu_busy, BUSY.replace("910B4", "995Z9"))
    yield told(npu_busy, screen("c_910b2_24.1.0_idle").replace("| 0     910B2", "| 9     910B2"), count=3)


IDLE = screen("c_910b2_24.1.0_idle")
HELD = IDLE.replace("3321 ", "31877")  # of NPU 1
RT = "ASCEND_RT_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    ("name", "count"),
    [("a_910a_1.8.19", 4), ("c_910b2_24.1.0_idle", 8), ("d_a3_25.0.1_idle", 8)],
)
def test_quiet_when_idle(name: str, count: int) -> None:
    for parts in ((), (CONTAINER,)):
        answer = told(npu_busy, screen(name), *parts, count=count)
        assert (answer.status, answer.findings) == (Status.OK, ())


def test_held_by_a_stranger() -> None:
    (finding,) = told(npu_busy, BUSY, USERS, me(), one(71001, uid=1001)).findings
    assert (finding.code, finding.device) == ("npu-busy.held", "NPU 0")
    assert finding.message == "NPU 0 is held by pid 71001 (python3, bob) (+1): 25040 MB of 32768 MB"
    assert finding.evidence == ("pid 71001 (python3, bob): 25033 MB", "pid 71002: 7 MB")


@pytest.mark.parametrize(
    ("variables", "uid", "severity"),
    [
        ({}, 1001, Severity.INFO),  # a machine that people share
        ({}, 0, Severity.WARNING),  # the user's own, who may end it
        ({RT: "0"}, 1001, Severity.WARNING),
        ({"SLURM_JOB_GPUS": "0"}, 1001, Severity.WARNING),
    ],
)
def test_how_bad_it_is(variables: Mapping[str, str], uid: int, severity: Severity) -> None:
    (finding,) = told(npu_busy, BUSY, me(), one(71001, uid=uid), variables=variables).findings
    assert finding.severity is severity


def test_every_device_is_held_by_others() -> None:
    both = BUSY.replace("2870 ", "27000").replace("No running processes found in NPU 1", "", 1)
    answer = told(npu_busy, both, me(), one(71001, uid=1001))
    assert {finding.severity for finding in answer.findings} == {Severity.WARNING}
    assert answer.codes == ["npu-busy.held", "npu-busy.memory-held"]


@pytest.mark.parametrize("variables", [{RT: "1"}, {"SLURM_STEP_GPUS": "1", "SLURM_JOB_GPUS": "0,1"}])
def test_only_the_devices_of_this_job(variables: Mapping[str, str]) -> None:
    answer = told(npu_busy, BUSY, me(), one(71001, uid=1001), variables=variables)
    assert answer.codes == []
    assert answer.facts["named"] is True
    assert list(answer.facts["devices"]) == ["NPU 1"]  # type: ignore[call-overload]


JOB = "/system.slice/slurmstepd.scope/job_7"


LOGIN = "/user.slice/user-0.slice/session-1.scope"
NOTEBOOK = "/kubepods/pod7/notebook"
SAME = BUSY.replace("71002", "71001")


@pytest.mark.parametrize(
    ("ours", "its"),
    [
        (me(), one(71001, SELF)),
        (me(group=f"{JOB}/step_0/user/task_0"), one(71001, group=f"{JOB}/step_0/user/task_1")),
    ],
    ids=["child", "slurm job"],
)
def test_our_own_processes_are_no_strangers(ours: dict[str, Content], its: dict[str, Content]) -> None:
    assert told(npu_busy, SAME, ours, its, variables={"SLURM_JOB_ID": "7"}).codes == []


@pytest.mark.parametrize(
    ("ours", "its"),
    [
        (me(), one(71001, 600, 500)),  # of a child that has ended meanwhile, in our session
        (me(group=LOGIN), one(71001, group=LOGIN)),
        (me(group=NOTEBOOK), one(71001, group=NOTEBOOK)),
    ],
    ids=["session", "login", "notebook"],
)
def test_an_old_process_beside_us_is_named(ours: dict[str, Content], its: dict[str, Content]) -> None:
    asked = told(npu_busy, SAME, ours, its)
    (finding,) = asked.findings
    assert (asked.status, finding.code, finding.severity) == (
        Status.OK,
        "npu-busy.held-by-session",
        Severity.INFO,
    )
    assert "pid 71001 (python3, uid 0)" in finding.message
    assert "of the same container or session" in finding.message


def test_the_same_group_does_not_make_other_users_ours() -> None:
    """A service that starts everybody's notebooks."""
    group = "/system.slice/jupyterhub.service"
    answer = told(npu_busy, BUSY, me(group=group), one(71001, uid=1001, group=group))
    assert answer.codes == ["npu-busy.held"]


def test_memory_without_an_owner() -> None:
    (finding,) = told(npu_busy, HELD, count=8).findings
    assert (finding.code, finding.severity, finding.device) == (
        "npu-busy.memory-held",
        Severity.WARNING,
        "NPU 1",
    )
    assert "no visible process accounts for 28470 MB" in finding.message
    assert told(npu_busy, HELD, count=8, variables={RT: "0,2,3"}).codes == []


def test_memory_where_no_processes_are_listed() -> None:
    (finding,) = told(npu_busy, OLD, count=4).findings
    assert (finding.code, finding.device) == ("npu-busy.memory-held", "NPU 2")
    assert "lists no processes" in finding.message


def test_a_full_list_explains_everything() -> None:
    lines = BUSY.splitlines()
    row = next(line for line in lines if "71002" in line)
    text = BUSY.replace(row, "\n".join([row] * 7)).replace("25033", "7    ")
    assert "npu-busy.memory-held" not in told(npu_busy, text, me()).codes


def test_a_310p_has_its_memory_in_another_column() -> None:
    text = screen("e_310p_24.1.1_two_chips")
    assert told(npu_busy, text, me()).codes == ["npu-busy.held"]
    free = text.replace("| 6       1                     | 88001", "| 7       1                     | 88001")
    assert told(npu_busy, free).codes == ["npu-busy.memory-held"]


def test_in_a_container_the_hosts_pids_say_nothing() -> None:
    """A process of the container may well have the same number."""
    for processes in ({}, one(71001)):
        answer = told(npu_busy, BUSY, CONTAINER, me(), processes)
        (finding,) = answer.findings
        assert (answer.status, finding.code) == (Status.PROBLEM, "npu-busy.memory-held")
        assert finding.severity is Severity.WARNING
        assert "this container cannot see which process uses it" in finding.message
    answer = told(npu_busy, HELD, CONTAINER, count=8)
    assert (answer.status, answer.codes) == (Status.PROBLEM, ["npu-busy.memory-held"])


def test_in_a_container_an_ai_core_that_computes_for_others() -> None:
    text = IDLE.replace("0000:01:00.0  | 0 ", "0000:01:00.0  | 97")
    (finding,) = told(npu_busy, text, CONTAINER, count=8).findings
    assert (finding.code, "AI core is 97 % busy" in finding.message) == ("npu-busy.memory-held", True)
    assert told(npu_busy, text, count=8).codes == []


def test_in_a_container_what_we_hold_ourselves_is_no_strangers() -> None:
    opened: dict[str, Content] = {f"/proc/{SELF}/fd/7": link("/dev/davinci1")}
    answer = told(npu_busy, HELD, CONTAINER, me(), opened, count=8)
    assert (answer.status, answer.advisory, answer.codes) == (Status.UNKNOWN, True, [])
    other: dict[str, Content] = {f"/proc/{SELF}/fd/7": link("/dev/davinci2")}
    assert told(npu_busy, HELD, CONTAINER, me(), other, count=8).codes == ["npu-busy.memory-held"]


def test_in_a_container_with_its_own_pids() -> None:
    answer = told(npu_busy, LATE, CONTAINER, USERS, me(), one(77))
    finding, unseen = answer.findings
    assert (finding.device, "pid 77 (python3, root)" in finding.message) == ("NPU 0", True)
    assert (unseen.code, unseen.device) == ("npu-busy.memory-held", "NPU 1")
    assert unseen.evidence == ("unaccounted for: 5990 MB",)
    light = LATE.replace("5990", "90  ").replace("9403", "3503")
    little = told(npu_busy, light, CONTAINER, me(), one(77, SELF))
    assert (little.status, little.advisory, little.codes) == (Status.UNKNOWN, True, [])
    assert "NPU 1" in little.reason
    assert told(npu_busy, LATE, CONTAINER, me(), one(77, SELF), variables={RT: "0"}).status is Status.OK


def test_a_container_is_shown_all_of_the_host() -> None:
    answer = told(npu_busy, HELD, CONTAINER, count=1)
    assert (answer.status, list(answer.facts["devices"])) == (Status.OK, ["NPU 0"])  # type: ignore[call-overload]
    other = HELD.replace("| 0     910B2", "| 9     910B2")
    answer = told(npu_busy, other, CONTAINER, count=1)
    assert (answer.status, answer.advisory) == (Status.UNKNOWN, True)


def test_a_chip_that_nobody_has_seen_idle() -> None:
    text = BUSY.replace("910B4", "995Z9")
    answer = told(npu_busy, text.replace("25033", "20   "), me())
    assert (answer.status, answer.advisory) == (Status.UNKNOWN, True)
    assert "995Z9" in answer.reason
    assert told(npu_busy, screen("g_950_26.1.0")).status is Status.OK


@pytest.mark.parametrize("answer", [None, "?", CommandResult(INFO, "timeout")])
def test_cannot_tell_and_skipped(answer: object) -> None:
    assert told(npu_busy, answer).status is Status.UNKNOWN  # type: ignore[arg-type]
    assert ask(npu_busy, fake_host()).status is Status.SKIPPED
    assert told(npu_busy, None, root="/srv/image").status is Status.SKIPPED
    assert not npu_busy.quick


class Bare(System):
    """No container, whatever the tests run in."""

    def is_container(self) -> bool:
        return False


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    disk = LocalDisk()
    npus = Accelerators("npu", ("/dev/davinci0", "/dev/davinci1"), (), (), None)
    variables = {"PATH": str(tmp_path), RT: "0"}
    made = Host(disk=disk, variables=variables, npus=npus, system=Bare(disk, Files(disk)))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("stranger", "codes"), [(True, ["npu-busy.held"]), (False, [])], ids=["setsid", "our child"]
)
def test_real_processes(host: Host, tmp_path: Path, stranger: bool, codes: list[str]) -> None:
    """One that we have started, and one that is nobody's child and of no session of ours."""
    script = "import os, sys, time; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True); "
    script += "os.close(1); time.sleep(60)"
    if not stranger:
        script = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    started = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    pid = int(started.stdout.readline())
    try:
        text = BUSY.replace("71001", str(pid)).replace("71002", str(pid))
        (tmp_path / "table").write_text(text)
        (tmp_path / "npu-smi").write_text(f"#!/bin/sh\ncat {tmp_path}/table\n")
        (tmp_path / "npu-smi").chmod(0o755)
        answer = ask(npu_busy, host)
    finally:
        os.kill(pid, 9)
        started.stdout.close()
        started.wait()
    # Where the tests themselves run in a group of their own, all that they start is beside them.
    group = max(host.processes.cgroups(os.getpid()) or ("",), key=lambda path: path.count("/"))
    beside = stranger and group.count("/") > 1
    assert answer.codes == (["npu-busy.held-by-session"] if beside else codes)


def test_a_running_job_that_is_examined_is_no_stranger_to_itself() -> None:
    files = {**me(), **one(71001, 71000, 71000, uid=1001), **one(71000, 1, 71000, uid=1001)}
    text = BUSY.replace("71002", "71001")
    assert told(npu_busy, text, files, options=Options(env_of=71000)).codes == []
    assert told(npu_busy, text, files).codes == ["npu-busy.held"]
