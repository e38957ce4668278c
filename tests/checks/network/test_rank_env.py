"""rank-env: a process's rank as each launcher tells it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Optional

import pytest

from npudoctor import Severity, Status
from npudoctor.checks.network.rank_env import rank_env
from npudoctor.checks.network.rank_env import rank_env as check
from npudoctor.testing import Asked, Content, ask, device, fake_host

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
MEET = {"MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "29500"}
# As torchrun gives them to the second process of the second node.
TORCHRUN = {
    **MEET, "RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8", "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2", "ROLE_RANK": "9", "TORCHELASTIC_RUN_ID": "none",
}  # fmt: skip
MSRUN = {
    "MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "8", "MS_NODE_ID": "3", "MS_SCHED_HOST": "192.0.2.1",
    "MS_SCHED_PORT": "8118", "RANK_ID": "3", "RANK_SIZE": "8", "DEVICE_ID": "3",
}  # fmt: skip
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "8", "OMPI_COMM_WORLD_NODE_RANK": "3", "PMIX_RANK": "3",
}  # fmt: skip
SRUN = {
    "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "3", "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_NODES": "1", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0",
}  # fmt: skip
ENDPOINTS = ",".join(f"192.0.2.1:{6070 + at}" for at in range(8))
PADDLE = {
    "PADDLE_TRAINER_ID": "3", "PADDLE_TRAINERS_NUM": "8", "PADDLE_TRAINER_ENDPOINTS": ENDPOINTS,
    "PADDLE_CURRENT_ENDPOINT": "192.0.2.1:6073",
}  # fmt: skip
PLAIN = {**MEET, "RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3"}


def told(devices: int = 8, gpus: int = 0, expect: str = "auto", /, **variables: str) -> Asked:
    files: dict[str, Content] = {f"/dev/davinci{at}": device() for at in range(devices)}
    files.update({f"/dev/nvidia{at}": device() for at in range(gpus)})
    return ask(rank_env, fake_host(files, variables=variables, expect=expect))


@pytest.mark.parametrize(
    "variables",
    [
        TORCHRUN,
        MSRUN,
        {**MSRUN, "MS_NODE_ID": "sched", "MS_ROLE": "MS_SCHED"},
        {**MPIRUN, **PLAIN},
        {**SRUN, **PLAIN},
        PADDLE,
        {**PADDLE, **PLAIN},
        {"RANK_SIZE": "8", "RANK_ID": "0", "DEVICE_ID": "0"},
        {"RANK": "1", "WORLD_SIZE": "2", **MEET},  # the pods of a PyTorchJob, before torchrun
        {"WORLD_SIZE": "16"},
        {"RANK": "0"},
        {"LOCAL_RANK": "-1"},
        {"NODE_RANK": "1", "NNODES": "2"},
        {"NODE_RANK": "1", "NNODES": "1:4"},
        {**TORCHRUN, "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"},  # one task a node starts torchrun
        {**TORCHRUN, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "16"},  # ranks by rendezvous
        {**PLAIN, "SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"},  # a batch script
        {"RANK": "5", "WORLD_SIZE": "24", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "3", "RANK_SIZE": "8"},
        {**TORCHRUN, "RANK_SIZE": "8"},
    ],
)
def test_quiet_when_well(variables: dict[str, str]) -> None:
    asked = told(**variables)
    assert (asked.status, asked.codes) == (Status.OK, [])
    assert asked.facts["variables"]


@pytest.mark.parametrize("variables", [{}, SRUN, MPIRUN, MEET, {"SLURM_NTASKS": "8"}])
def test_skipped_where_nothing_tells_a_rank(variables: dict[str, str]) -> None:
    assert told(**variables).status is Status.SKIPPED


def test_skipped_in_an_image() -> None:
    assert ask(rank_env, fake_host(root="/image", variables=PLAIN)).status is Status.SKIPPED


@pytest.mark.parametrize(
    "variables",
    [
        {"RANK": "one"},
        {"RANK": ""},
        {"WORLD_SIZE": "0"},
        {"WORLD_SIZE": "8.0"},
        {"RANK_ID": "-2"},
        {"MS_WORKER_NUM": "0"},
        {"PADDLE_TRAINERS_NUM": "“2”"},
        {**MSRUN, "MS_ROLE": "WORKER"},
    ],
)
def test_what_is_no_rank(variables: dict[str, str]) -> None:
    (finding,) = told(**variables).findings
    assert (finding.code, finding.severity) == ("rank-env.bad-value", ERROR)


@pytest.mark.parametrize(
    ("variables", "severity"),
    [
        ({"RANK": "8", "WORLD_SIZE": "8"}, ERROR),
        ({**TORCHRUN, "LOCAL_WORLD_SIZE": "1"}, ERROR),
        ({"RANK_ID": "8", "RANK_SIZE": "8"}, ERROR),
        ({**MSRUN, "MS_NODE_ID": "8", "RANK_ID": "0"}, ERROR),
        ({"PADDLE_TRAINER_ID": "2", "PADDLE_TRAINERS_NUM": "2"}, ERROR),
        ({"NODE_RANK": "2", "NNODES": "2"}, WARNING),
        ({"PET_NODE_RANK": "2", "PET_NNODES": "2"}, WARNING),
    ],
)
def test_a_rank_that_the_job_does_not_have(variables: dict[str, str], severity: Severity) -> None:
    finding = told(**variables).findings[0]
    assert (finding.code, finding.severity) == ("rank-env.out-of-range", severity)
    assert finding.fix is not None
    assert all(line.startswith("unset ") for line in finding.fix.commands)


@pytest.mark.parametrize(
    ("variables", "severity"),
    [
        ({**PLAIN, **MPIRUN, "OMPI_COMM_WORLD_RANK": "4"}, WARNING),
        ({**PLAIN, **SRUN, "SLURM_PROCID": "4"}, WARNING),
        ({**PLAIN, "RANK_ID": "0", "RANK_SIZE": "8"}, WARNING),
        ({**PLAIN, "PADDLE_TRAINER_ID": "0", "PADDLE_TRAINERS_NUM": "8"}, WARNING),
        ({"WORLD_SIZE": "12", "RANK_SIZE": "8"}, INFO),
        ({**MSRUN, "RANK_SIZE": "16"}, WARNING),
        ({**MEET, "RANK": "1", "WORLD_SIZE": "8", "LOCAL_RANK": "3"}, WARNING),
        ({**PADDLE, "PADDLE_TRAINERS_NUM": "4"}, WARNING),
        ({**PADDLE, "PADDLE_CURRENT_ENDPOINT": "192.0.2.9:6070"}, WARNING),
        ({"PADDLE_TRAINER_ENDPOINTS": "192.0.2.1:1, 192.0.2.1:1"}, WARNING),
    ],
)
def test_launchers_that_disagree(variables: dict[str, str], severity: Severity) -> None:
    (finding,) = told(**variables).findings
    assert (finding.code, finding.severity) == ("rank-env.disagree", severity)
    assert finding.evidence


@pytest.mark.parametrize(
    ("devices", "gpus", "variables", "said"),
    [
        (4, 0, {**TORCHRUN, "LOCAL_RANK": "4", "RANK": "12"}, "0 to 3"),
        (4, 0, TORCHRUN, "only 4 devices"),
        (8, 0, {**PLAIN, "ASCEND_RT_VISIBLE_DEVICES": "4,5"}, "0 to 1"),
        (0, 8, {**PLAIN, "CUDA_VISIBLE_DEVICES": "0"}, None),
        (8, 0, {**TORCHRUN, "LOCAL_RANK": "7", "RANK": "7", "ASCEND_RT_VISIBLE_DEVICES": "7"}, None),
        (1, 0, {**TORCHRUN, "LOCAL_RANK": "7", "RANK": "7"}, None),
        (0, 0, TORCHRUN, None),
        (0, 8, TORCHRUN, None),
        (8, 0, {**PLAIN, "ASCEND_RT_VISIBLE_DEVICES": ""}, None),
    ],
)
def test_more_ranks_than_devices(
    devices: int, gpus: int, variables: dict[str, str], said: Optional[str]
) -> None:
    asked = told(devices, gpus, **variables)
    assert asked.codes == ([] if said is None else ["rank-env.no-device"])
    assert said is None or said in asked.findings[0].message


def test_devices_do_not_matter_where_none_is_expected() -> None:
    assert told(2, 0, "none", **TORCHRUN).codes == []


@pytest.mark.parametrize(
    ("variables", "severity"),
    [
        ({"MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "8"}, WARNING),
        ({**MSRUN, "MS_SCHED_HOST": ""}, WARNING),
        ({"RANK": "3", "LOCAL_RANK": "3", "WORLD_SIZE": "8"}, INFO),
        ({**MEET, "RANK": "3", "LOCAL_RANK": "3"}, INFO),
    ],
)
def test_half_a_launch(variables: dict[str, str], severity: Severity) -> None:
    (finding,) = told(**variables).findings
    assert (finding.code, finding.severity) == ("rank-env.half-set", severity)


VARIABLES: tuple[dict[str, str], ...] = (
    {},
    {"RANK": "first", "WORLD_SIZE": "0"},
    {"RANK": "8", "WORLD_SIZE": "8"},
    {"RANK": "1", "WORLD_SIZE": "8", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4"},
    {"RANK": "1", "WORLD_SIZE": "8", "RANK_ID": "2", "RANK_SIZE": "8"},
    {"RANK_SIZE": "8", "WORLD_SIZE": "12"},
    {"MS_ROLE": "WORKER", "MS_WORKER_NUM": "8", "RANK_SIZE": "4"},
    {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "192.0.2.1:6070"},
    {"PADDLE_TRAINER_ENDPOINTS": "192.0.2.1:6070,192.0.2.1:6070"},
    {
        "PADDLE_TRAINER_ID": "0",
        "PADDLE_TRAINER_ENDPOINTS": "192.0.2.1:6070,192.0.2.2:6070",
        "PADDLE_CURRENT_ENDPOINT": "192.0.2.2:6070",
    },
    {"LOCAL_RANK": "2", "RANK": "2"},
    {"LOCAL_WORLD_SIZE": "8"},
)


def scene(tmp: Path) -> Iterator[Asked]:
    """Every code."""
    machine = {"/dev/davinci0": device(), "/dev/davinci1": device()}
    for variables in VARIABLES:
        yield ask(check, fake_host(machine, variables=variables))
