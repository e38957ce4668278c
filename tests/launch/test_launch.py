"""What identifies a launch, and what makes ranks alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Optional

import pytest

from npudoctor.host import Host
from npudoctor.launch.launch import Launch, count_slurm_tasks, find_launch, fingerprint

TORCH = {"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "x", "MASTER_PORT": "29500"}


def launch(variables: Mapping[str, str], pid: int = 0) -> Optional[Launch]:
    return find_launch(Host(variables=variables), variables, pid or os.getpid())


def test_all_ranks_of_a_launch_have_one_name() -> None:
    names = [launch({**TORCH, "LOCAL_RANK": str(rank), "RANK": str(rank)}) for rank in range(8)]
    found = [one for one in names if one is not None]
    assert [(one.rank, one.size) for one in found] == [(rank, 8) for rank in range(8)]
    assert len({one.key for one in found}) == 1


@pytest.mark.parametrize(
    "other", [{"TORCHELASTIC_RESTART_COUNT": "1"}, {"TORCHELASTIC_RUN_ID": "y"}, {"MASTER_PORT": "29501"},
              {"SLURM_STEP_ID": "1"}, {"SLURM_RESTART_COUNT": "1"}, {"GROUP_RANK": "1"}],
)  # fmt: skip
def test_another_launch_has_another_name(other: dict[str, str]) -> None:
    one, two = launch(TORCH), launch({**TORCH, **other})
    assert one is not None and two is not None and one.key != two.key


def test_another_launcher_process_is_another_launch() -> None:
    look = (
        "import os; from npudoctor.host import Host; from npudoctor.launch.launch import find_launch; "
        "v = dict(os.environ); print(find_launch(Host(variables=v), v, os.getpid()).key)"
    )
    rank = [sys.executable, "-c", look]
    through_shell = ["sh", "-c", '"$@"; true', "sh", *rank]
    plain = {name: value for name, value in os.environ.items() if name != "LOCAL_RANK"}
    start = "import os,subprocess,sys,json; v={**os.environ, **json.loads(sys.argv[1])}\n"
    start += "for line in json.loads(sys.argv[2]):\n"
    start += "    print(subprocess.run(line, env=v, stdout=-1, text=True).stdout.strip())\n"

    def launcher() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", start, json.dumps(TORCH), json.dumps([rank, through_shell])],
            env=plain, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.split()

    first, second = launcher(), launcher()
    assert len(first) == 2 and len(set(first)) == 1, "a shell of the rank's own changes nothing"
    assert len(set(second)) == 1 and first[0] != second[0]


@pytest.mark.parametrize(
    "variables", [{}, {"LOCAL_RANK": "x"}, {"LOCAL_RANK": "-1"}, {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"},
                  {"SLURM_LOCALID": "0", "SLURM_JOB_ID": "1"}, {"RANK": "1", "WORLD_SIZE": "2"}],
)  # fmt: skip
def test_who_is_alone_shares_with_nobody(variables: dict[str, str]) -> None:
    assert launch(variables) is None


def test_the_innermost_launcher_counts() -> None:
    slurm = {"SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "4"}
    inner = launch({**slurm, **TORCH})
    outer = launch(slurm)
    assert inner is not None and (inner.rank, inner.size) == (3, 8)
    assert outer is not None and (outer.rank, outer.size) == (0, 4)


def test_a_rank_named_by_a_shell_of_its_own_is_the_outer_launchers() -> None:
    outer = {"SLURM_LOCALID": "3", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "8"}
    same = launch(outer)
    assert same is not None and launch({**outer, "LOCAL_RANK": "3"}) == same
    for inner in ({"LOCAL_RANK": "2"}, {"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4"}, TORCH):
        other = launch({**outer, **inner})
        assert other is not None and other.key != same.key, inner


@pytest.mark.parametrize(
    ("told", "node", "tasks"),
    [("8", "0", 8), ("4(x2),3", "1", 4), ("4(x2),3", "2", 3), ("4(x2),3", "3", None), ("", "0", None),
     ("x", "0", None), ("8", "", None)],
)  # fmt: skip
def test_the_tasks_of_a_node(told: str, node: str, tasks: Optional[int]) -> None:
    assert count_slurm_tasks({"SLURM_STEP_TASKS_PER_NODE": told, "SLURM_NODEID": node}) == tasks


def test_what_makes_ranks_alike() -> None:
    one = {"PATH": "/bin", "LD_LIBRARY_PATH": "/lib", "RANK": "0", "ASCEND_DEVICE_ID": "0", "MS_NODE_ID": "0"}
    assert fingerprint(one) == fingerprint({**one, "RANK": "1", "ASCEND_DEVICE_ID": "1", "MS_NODE_ID": "1"})
    for name in (
        "PATH",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "PYTHONPATH",
        "ASCEND_HOME_PATH",
        "HCCL_IF_IP",
        "HOME",
        "RANK_TABLE_FILE",
        "CUDA_VISIBLE_DEVICES",
        "WORLD_SIZE",
    ):
        assert fingerprint(one) != fingerprint({**one, name: "/other"}), name
    assert fingerprint(one, "/work") != fingerprint(one, "/home")
