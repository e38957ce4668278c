"""A living process is proven stale by its control group alone, and never where something cannot be seen."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Callable, Optional

import pytest

from npudoctor.host import Host
from npudoctor.host.fs.files import Files, LocalDisk
from npudoctor.host.system import System
from npudoctor.proof.stale import Staleness, staleness
from npudoctor.testing import Content, fake_host, link, process_files, unreadable

ID = "5f" * 32
OTHER = "a0" * 32
V1 = "12:freezer:/slurm/uid_1000/job_4242/step_0\n4:memory:/slurm/uid_1000/job_4242/step_0/task_0\n0::/\n"
V2 = "0::/system.slice/slurmstepd.scope/job_4242/step_0/user/task_0\n"
V2_MANY = "0::/system.slice/node7_slurmstepd.scope/job_4242/step_batch/user/task_0\n"
DOCKER = f"0::/system.slice/docker-{ID}.scope\n"
DOCKER_V1 = f"11:devices:/docker/{ID}\n1:name=systemd:/docker/{ID}\n"
POD = f"0::/kubepods.slice/kubepods-podd1.slice/cri-containerd-{ID}.scope\n"
PODMAN = f"0::/machine.slice/libpod-{ID}.scope/container\n"
SHIM = ("/usr/bin/containerd-shim-runc-v2", "-namespace", "moby", "-id")
KUBE_SHIM = ("/usr/bin/containerd-shim-runc-v2", "-namespace", "k8s.io", "-id")


def process(
    pid: int, cgroup: str, name: str = "python3", argv: Sequence[str] = ("python3",), **more: object
) -> dict[str, Content]:
    files = process_files(pid, name, argv=argv, **more)  # type: ignore[arg-type]
    return {**files, f"/proc/{pid}/cgroup": cgroup}


def judge(files: dict[str, Content], pid: int = 70) -> Staleness:
    machine: dict[str, Content] = {
        "/proc/self/ns/pid": link("pid:[4026531836]"),
        "/proc/self/ns/cgroup": link("cgroup:[4026531835]"),
        **process(1, "0::/init.scope\n", "systemd", parent=0),
        **process(2, "0::/\n", "kthreadd", ()),
        **process(30, "0::/system.slice/slurmd.service\n", "slurmd", ("/usr/sbin/slurmd", "-D")),
        **process(
            31, "0::/system.slice/slurmstepd.scope/system\n", "slurmstepd", ("/sbin/slurmstepd", "infinity")
        ),
        **process(40, "0::/system.slice/docker.service\n", "dockerd", ("/usr/bin/dockerd",)),
    }
    return staleness(fake_host({**machine, **files}), pid)


@pytest.mark.parametrize(
    ("cgroup", "word"),
    [
        (V1, "4242"),
        (V2, "4242"),
        (V2_MANY, "4242"),
        (DOCKER, ID[:12]),
        (DOCKER_V1, ID[:12]),
        (POD, ID[:12]),
        (PODMAN, ID[:12]),
    ],
)
def test_nothing_looks_after_it_any_more(cgroup: str, word: str) -> None:
    verdict = judge(process(70, cgroup))
    assert verdict.proven
    assert word in verdict.why


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        "0::/\n",
        "",
        # Not at the root: a user can make these below his own slice.
        "0::/user.slice/user-1000.slice/user@1000.service/slurm/uid_1000/job_4242/step_0\n",
        "0::/user.slice/system.slice/slurmstepd.scope/job_4242/step_0\n",
        # Not of Slurm, or not of a job.
        "0::/lsf/job_4242/step_0\n",
        "0::/system.slice/slurmstepd.scope/job_x/step_0\n",
        "0::/system.slice/slurmstepd.scope/system\n",
        "0::/system.slice/slurmd.service\n",
        # A short id, the service of a monitor, a build, a runtime that we do not know.
        "0::/system.slice/docker-5f5f5f.scope\n",
        f"0::/machine.slice/libpod-conmon-{ID}.scope\n",
        "0::/docker/buildkit/j4x2k9\n",
        f"0::/kubepods/burstable/podd1/{ID}\n",
        f"0::/kubepods.slice/crio-{ID}.scope\n",
    ],
)
def test_in_no_job_and_no_container(cgroup: str) -> None:
    assert not judge(process(70, cgroup)).proven


def test_a_parent_that_is_gone_is_no_proof() -> None:
    orphan = process(70, "0::/user.slice/user-1000.slice/session-3.scope\n", argv=("nohup", "x"), parent=1)
    assert not judge(orphan).proven


@pytest.mark.parametrize("cgroup", [V1, V2])
@pytest.mark.parametrize(
    ("name", "argv", "own"),
    [
        ("slurmstepd", ("slurmstepd: [4242.0]",), "0::/x\n"),
        ("slurmstepd", ("slurmstepd: [4242.extern]",), "0::/x\n"),
        ("slurmstepd", ("slurmstepd: [StepId=4242.batch]",), "0::/x\n"),
        ("slurmstepd", ("slurmstepd: [4242]",), "0::/x\n"),
        ("acctg", ("slurmstepd: [4242.0]",), "0::/x\n"),
        (
            "slurmstepd",
            ("slurmstepd: [s1CGTX]",),
            "0::/system.slice/slurmstepd.scope/job_4242/step_0/slurm\n",
        ),
        # Whose job cannot be told may be ours.
        ("slurmstepd", ("/usr/sbin/slurmstepd",), "0::/system.slice/slurmd.service\n"),
        ("slurmstepd", (), "0::/\n"),
    ],
)
def test_a_slurmstepd_may_look_after_it(cgroup: str, name: str, argv: Sequence[str], own: str) -> None:
    verdict = judge({**process(70, cgroup), **process(50, own, name, argv)})
    assert not verdict.proven
    assert "50" in verdict.why


@pytest.mark.parametrize(
    ("argv", "own"),
    [
        (("slurmstepd: [424.0]",), "0::/x\n"),
        (("slurmstepd: [42420.extern]",), "0::/x\n"),
        (("slurmstepd: [s1CG]",), "0::/system.slice/slurmstepd.scope/job_7/step_0/slurm\n"),
    ],
)
def test_a_slurmstepd_of_another_job_does_not(argv: Sequence[str], own: str) -> None:
    assert judge({**process(70, V2), **process(50, own, "slurmstepd", argv)}).proven


def test_a_dead_slurmstepd_does_not() -> None:
    assert judge(
        {**process(70, V2), **process(50, "0::/\n", "slurmstepd", ("slurmstepd: [4242.0]",), state="Z")}
    ).proven


@pytest.mark.parametrize(
    ("cgroup", "argv"),
    [
        (DOCKER, (*SHIM, ID, "-address", "/run/containerd/containerd.sock")),
        (DOCKER, ("docker-containerd-shim", "-workdir", f"/var/lib/docker/containerd/moby/{ID}")),
        (DOCKER_V1, (*SHIM, ID)),
        (POD, (*KUBE_SHIM, ID)),
        (POD, (*KUBE_SHIM, OTHER)),  # of a pod: its id is the sandbox's
        (PODMAN, ("/usr/bin/conmon", "--api-version", "1", "-c", ID, "-u", ID)),
    ],
)
def test_a_shim_or_conmon_may_look_after_it(cgroup: str, argv: Sequence[str]) -> None:
    name = argv[0].rsplit("/", 1)[-1][:15]
    verdict = judge({**process(70, cgroup), **process(60, "0::/system.slice\n", name, argv)})
    assert not verdict.proven
    assert "60" in verdict.why


@pytest.mark.parametrize("cgroup", [DOCKER, PODMAN])
def test_the_shim_of_another_container_does_not(cgroup: str) -> None:
    shim = process(60, "0::/\n", "containerd-shim", (*SHIM, OTHER))
    assert judge({**process(70, cgroup), **shim}).proven


def test_a_shim_of_docker_looks_after_no_pod() -> None:
    assert judge({**process(70, POD), **process(60, "0::/\n", "containerd-shim", (*SHIM, OTHER))}).proven


def test_both_job_and_container_must_be_over() -> None:
    both = f"0::/system.slice/slurmstepd.scope/job_4242/step_0/user/task_0/libpod-{ID}.scope\n"
    assert judge(process(70, both)).proven
    conmon = process(60, "0::/\n", "conmon", ("/usr/bin/conmon", "-c", ID))
    assert not judge({**process(70, both), **conmon}).proven
    step = process(61, "0::/\n", "slurmstepd", ("slurmstepd: [4242.0]",))
    assert not judge({**process(70, both), **step}).proven


@pytest.mark.parametrize(
    "files",
    [
        {"/.dockerenv": ""},
        {"/run/.containerenv": ""},
        {"/proc/1/cgroup": f"0::/docker/{OTHER}\n"},
        {"/proc/self/ns/pid": link("pid:[4026532201]")},
        {"/proc/self/ns/cgroup": link("cgroup:[4026532202]")},
        {"/proc/self/ns/pid": unreadable()},
        {"/proc/1/cgroup": unreadable()},
        {"/proc/1/stat": unreadable()},
        {"/proc/70/cgroup": unreadable()},
        {"/proc/40/cmdline": unreadable()},  # it could be anybody's slurmstepd
    ],
)
def test_what_cannot_be_seen_proves_nothing(files: dict[str, Content]) -> None:
    verdict = judge({**process(70, V2), **files})
    assert not verdict.proven
    assert verdict.why


def test_a_process_that_is_gone_is_not_stale() -> None:
    assert not judge({}).proven
    assert not judge(process(70, V2, state="Z")).proven


def test_a_hidden_process_proves_nothing() -> None:
    """hidepid=1 shows the folder of another user's process, and nothing in it."""
    pid = os.getpid()  # alive, as kill(pid, 0) says
    files = {**process(70, V2), **process(pid, "0::/\n"), f"/proc/{pid}/stat": unreadable(errno.EPERM)}
    verdict = judge(files)
    assert not verdict.proven
    assert verdict.why == f"pid {pid} is hidden"


class Bare(System):
    """This machine, which may bear the mark of an image that it was made from; its namespaces are judged."""

    def is_container(self) -> bool:
        return False


def machine() -> Host:
    files = Files(LocalDisk())
    return Host(system=Bare(files.disk, files))


JOB = "system.slice/slurmstepd.scope/job_4294900{pid}"
PLACE = """
set -e
mount -t cgroup2 none {mount}
mkdir -p {mount}/{job}/step_0
echo {pid} > {mount}/{job}/step_0/cgroup.procs
"""
CLEAR = """
mount -t cgroup2 none {mount}
for folder in {job}/step_0 {job} system.slice/slurmstepd.scope system.slice; do
    rmdir {mount}/$folder 2>/dev/null || true
done
"""


def in_private_mounts(script: str) -> Optional[str]:
    """Why it failed, or None. What it mounts is seen by nobody else; the groups are the kernel's own."""
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return (done.stderr.strip() or f"status {done.returncode}") if done.returncode else None


@pytest.fixture
def job_process(tmp_path: Path, lack: Callable[[str], None]) -> Iterator[int]:
    """A real process in the real control group of a Slurm job of which nothing else was ever there."""
    child = subprocess.Popen(["sleep", "600"])
    where = {"mount": str(tmp_path), "job": JOB.format(pid=child.pid), "pid": str(child.pid)}
    try:
        failure = in_private_mounts(PLACE.format(**where))
        if failure:
            lack(f"no control group of version 2 can be made: {failure}")
        yield child.pid
    finally:
        child.kill()
        child.wait()
        in_private_mounts(CLEAR.format(**where))


@pytest.mark.needs_root
def test_a_real_process_in_the_group_of_a_job(
    job_process: int, need: Callable[..., None], lack: Callable[[str], None]
) -> None:
    need("unshare", "bash")
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        assert not staleness(machine(), job_process).proven
        lack("in a pid namespace nothing is proven")
    verdict = staleness(machine(), job_process)
    assert verdict.proven, verdict.why

    title = f"slurmstepd: [4294900{job_process}.0]"
    step = subprocess.Popen(["bash", "-c", f"exec -a '{title}' sleep 600"])
    try:
        assert not _soon(lambda: staleness(machine(), job_process).proven, False)
    finally:
        step.kill()
        step.wait()
    assert _soon(lambda: staleness(machine(), job_process).proven, True)


def test_a_real_process_of_ours_is_not_stale() -> None:
    assert not staleness(Host(), os.getpid()).proven


def _soon(ask: Callable[[], bool], wanted: bool) -> bool:
    """The answer, once it is the one that is wanted; else the last of many."""
    for _ in range(50):
        answer = ask()
        if answer is wanted:
            return answer
        time.sleep(0.05)
    return answer
