"""`--engine slurm` on a real Slurm of six nodes: inside and outside an allocation."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from npudoctor.fleet.gathering import Gathering
from npudoctor.fleet.request import Request
from npudoctor.fleet.slurm import _srun_words
from npudoctor.fleet.slurm_states import parse_closed_nodes

from .cluster import PROGRAM
from .slurm_cluster import SlurmCluster

CUT_OFF_IN_A_JOB, HANGING, DRAINED, CUT_OFF = range(3, 7)
# Instead of npudoctor: nothing for ever, from what it started; or what a step finds.
_HANGS = f"""#!/bin/sh
[ "$(hostname)" != node{HANGING} ] || %s sleep 600
exec {shlex.quote(str(PROGRAM))} "$@"
"""
_TELLS = """#!/bin/sh
env >{folder}/variables.$(hostname)
"""
_CARRY = """
from npudoctor.fleet import slurm
from npudoctor.fleet.gathering import Gathering
from npudoctor.fleet.request import Request
request = Request(("node1", "node2"), (), 20.0, 2, 5.0, carried=open("{folder}/program", "rb").read())
slurm.gather(Gathering(request, lambda answer: print(answer.node, answer.text.strip())), lambda: None)
"""
WELL = ("--", "--expect", "none")


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, need: Callable[..., None], lack: Callable[[str], None]
) -> Iterator[SlurmCluster]:
    if os.geteuid() != 0:
        lack("needs root")
    need("sshd", "ssh", "ip", "nsenter", "munged", "slurmctld", "slurmd", "srun", "salloc")
    folder = tmp_path_factory.mktemp("slurm")
    made = SlurmCluster(folder, 6)
    made.prepare()
    texts = ("hangs", _HANGS % ""), ("hangs-alone", _HANGS % "exec"), ("tells", _TELLS.format(folder=folder))
    for name, text in texts:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    with made:
        made.wait_for("idle")
        yield made


def words(cluster: SlurmCluster, *more: str, program: str = "hangs") -> str:
    """A line of sh: the check by Slurm of nodes of which one may hang."""
    options = ("--engine", "slurm", "--connect-timeout", "5", "--program", f"{cluster.folder}/{program}")
    return " ".join((shlex.quote(str(PROGRAM)), "fleet", "check", *options, *more))


def document(lines: list[str]) -> Any:
    return json.loads("\n".join(lines))


def nothing_runs(cluster: SlurmCluster, nodes: str) -> bool:
    """Whether within ten seconds no job, no step and nothing that they started is left of these nodes."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        jobs = cluster.lines(f"squeue -h -w {nodes}")
        started = cluster.lines("pgrep -f '^(sleep 600|srun |slurmstepd: )'")
        if not jobs and not started:
            return True
        time.sleep(0.2)
    return False


@pytest.mark.slow
@pytest.mark.needs_root
def test_outside_an_allocation_each_node_answers_for_itself(cluster: SlurmCluster) -> None:
    cluster.lines(f"scontrol update NodeName=node{DRAINED} State=DRAIN Reason='fan is loud'")
    cluster.lines(f"ip link set v{CUT_OFF} down")
    nodes = f"node[1,2,{HANGING}-{CUT_OFF},77]"
    ask = words(cluster, "-w", f"'{nodes}'", "--node-timeout", "12", "--format", "json", *WELL)
    told = document(cluster.lines(ask))
    assert told["engine"] == "slurm" and told["exit_code"] == 2
    assert told["nodes"] == {
        "ready": "node[1-2]",
        "not_ready": "",
        "undetermined": f"node{HANGING}",
        "silent": f"node[{DRAINED}-{CUT_OFF},77]",
    }
    why = {row["node"]: row["error"] for row in told["reports"] if "error" in row}
    assert why[f"node{DRAINED}"] == "Slurm starts no jobs on it (state drain: fan is loud)"
    assert why[f"node{HANGING}"] == "no answer in time"
    assert "Communication connection failure" in why[f"node{CUT_OFF}"]
    assert "Invalid node name specified" in why["node77"]
    cluster.lines(f"scontrol update NodeName=node{DRAINED} State=RESUME")
    assert nothing_runs(cluster, f"node[1-{HANGING}]")


@pytest.mark.slow
@pytest.mark.needs_root
def test_inside_an_allocation_its_nodes_are_asked(cluster: SlurmCluster) -> None:
    """And one of them that is lost after the job has begun costs the others nothing."""
    ask = words(cluster, "--node-timeout", "12", "--format", "json", *WELL)
    inside = f"ip link set v{CUT_OFF_IN_A_JOB} down; {ask}; squeue -h -s >&2"
    told = document(
        cluster.lines(f"salloc -Q -N4 -w node[1-{HANGING}] bash -c '{inside}' 2>{cluster.folder}/steps")
    )
    assert told["nodes"] == {
        "ready": "node[1-2]",
        "not_ready": "",
        "undetermined": f"node{HANGING}",
        "silent": f"node{CUT_OFF_IN_A_JOB}",
    }
    steps = (cluster.folder / "steps").read_text()
    assert "node" not in steps.replace(f"node{CUT_OFF_IN_A_JOB}", "")
    assert nothing_runs(cluster, f"node[1-2,{HANGING}]")


@pytest.mark.slow
@pytest.mark.needs_root
def test_a_step_that_asks_from_inside_a_step(cluster: SlurmCluster) -> None:
    """The job's own step holds all that there is, and says how its tasks are spread and its output looks."""
    ask = words(cluster, "--nodes", "ready", *WELL)
    odd = "export SLURM_LABELIO=1 SLURM_NTASKS_PER_NODE=2 SLURM_GPUS=16 SLURM_STDOUTMODE=/dev/null"
    line = f"salloc -Q -N2 -w node[1-2] srun -N1 -n1 -w node1 bash -c '{odd}; {ask}'"
    assert cluster.lines(line) == ["node[1-2]"]


@pytest.mark.slow
@pytest.mark.needs_root
def test_the_job_that_is_judged_is_not_the_step_that_asks(cluster: SlurmCluster) -> None:
    ask = f"{shlex.quote(str(PROGRAM))} fleet check --engine slurm --program {cluster.folder}/tells"

    def told() -> dict[str, str]:
        lines = (cluster.folder / "variables.node1").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if line.startswith(("SLURM", "MASTER")))

    cluster.lines(f"MASTER_ADDR=node2 salloc -Q -N2 -w node[1-2] {ask}")
    found = told()
    assert (found["SLURM_JOB_NUM_NODES"], found["MASTER_ADDR"]) == ("2", "node2")
    assert not {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_NODES", "SLURM_NNODES"}.intersection(found)
    cluster.lines(f"{ask} -w node1")
    found = told()
    assert "SLURM_JOB_ID" in found and "SLURM_JOB_NUM_NODES" not in found


def _ask_one_that_hangs(cluster: SlurmCluster, program: str) -> subprocess.Popen[str]:
    """As the foreground of a terminal: a group of its own, which its keys reach whole."""
    ask = words(cluster, "-w", f"node[1,{HANGING}]", "--format", "jsonl", *WELL, program=program)
    asked = subprocess.Popen(
        cluster.enter(
            "setsid", "env", f"SLURM_CONF={cluster.folder}/slurm.conf", "bash", "-c", f"exec {ask}"
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert asked.stdout is not None
    assert json.loads(asked.stdout.readline())["node"] == "node1"
    until = time.monotonic() + 10
    while not cluster.lines("pgrep -f '^sleep 600'"):
        assert time.monotonic() < until
        time.sleep(0.1)
    return asked


@pytest.mark.slow
@pytest.mark.needs_root
def test_ctrl_c_ends_the_step_and_leaves_a_report(cluster: SlurmCluster) -> None:
    asked = _ask_one_that_hangs(cluster, "hangs")
    cluster.lines("kill -INT -- -$(pgrep -o -f 'npudoctor fleet check --engine slurm')")
    rest, _errors = asked.communicate(timeout=20)
    assert asked.returncode == 130
    assert [json.loads(line)["error"] for line in rest.splitlines()] == ["stopped before the node answered"]
    assert nothing_runs(cluster, f"node{HANGING}")


@pytest.mark.slow
@pytest.mark.needs_root
def test_killed_it_leaves_no_step(cluster: SlurmCluster) -> None:
    asked = _ask_one_that_hangs(cluster, "hangs-alone")
    cluster.lines("pkill -KILL -f 'npudoctor fleet check --engine slurm'")
    asked.communicate(timeout=20)
    assert nothing_runs(cluster, f"node{HANGING}")


@pytest.mark.slow
@pytest.mark.needs_root
def test_a_busy_node_is_not_waited_for_and_no_job_stays_queued(cluster: SlurmCluster) -> None:
    cluster.lines("sbatch -w node1 -o /dev/null --wrap 'exec sleep 61'")
    cluster.lines("until squeue -h -t R | grep -q .; do sleep 0.1; done")
    began = time.monotonic()
    told = document(cluster.lines(words(cluster, "-w", "node[1-2]", "--format", "json", *WELL)))
    assert told["nodes"]["ready"] == "node2" and told["nodes"]["silent"] == "node1"
    assert "Requested nodes are busy" in json.dumps(told["reports"])
    assert time.monotonic() - began < 15
    ask = words(cluster, "-w", "node1", "--connect-timeout", "60", *WELL)
    cluster.lines(
        f"{ask} & asked=$!; until squeue -h -t PD | grep -q .; do sleep 0.1; done; kill $asked; wait"
    )
    assert cluster.lines("squeue -h -t PD") == []
    cluster.lines("scancel -u root")
    assert nothing_runs(cluster, "node[1-2]")


@pytest.mark.slow
@pytest.mark.needs_root
@pytest.mark.parametrize("inside", [True, False])
def test_pairs_meet_over_slurm(cluster: SlurmCluster, inside: bool) -> None:
    ask = f"{shlex.quote(str(PROGRAM))} fleet pairs --engine slurm --ports 61000-61003"
    line = f"salloc -Q -N2 -w node[1-2] {ask}" if inside else f"{ask} -w node[1-2]"
    assert cluster.lines(line) == ["all 2 nodes reach each other on 61000-61003 (8 connections)"]


@pytest.mark.slow
@pytest.mark.needs_root
def test_a_program_is_carried_over_slurm(cluster: SlurmCluster) -> None:
    """Through the standard input of the step, however large, and nothing of it stays."""
    (cluster.folder / "carry.py").write_text(_CARRY.format(folder=cluster.folder))
    (cluster.folder / "program").write_text("print('carried')\n#" + "x" * 3_000_000)
    told = cluster.lines(f"{shlex.quote(sys.executable)} {cluster.folder}/carry.py")
    assert sorted(told) == ["node1 carried", "node2 carried"]
    # Nodes have a /tmp of their own; ssh shows what lies there.
    assert "npudoctor." not in cluster.shell("node1", "ls /tmp")


def test_what_slurm_says_of_nodes() -> None:
    text = (
        "node1 idle none\nnode2 drain fan is loud\nnode2 drain fan is loud\nnode3 down* Not responding\n"
        "node4 idle* none\nnode5 mix- none\nnode5 mix- none\nnode6 drng none\n\nnode7\n"
        "node8 drain password=hunter2 is old\nother drain none\n"
    )
    assert parse_closed_nodes(text, [f"node{number}" for number in range(1, 10)]) == {
        "node2": "Slurm starts no jobs on it (state drain: fan is loud)",
        "node3": "Slurm starts no jobs on it (state down*: Not responding)",
        "node4": "Slurm gets no response from it (state idle*)",
        "node6": "Slurm starts no jobs on it (state drng)",
        "node8": "Slurm starts no jobs on it (state drain: password=*** is old)",
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--login", "bob"), "--login requires --engine ssh"),
        (("--tree", sys.executable), "--tree requires --engine ssh"),
        ((), "--engine slurm: env: no such command in PATH"),
    ],
    ids=["login", "tree", "no-srun"],
)
def test_what_slurm_cannot_do_is_said(words: tuple[str, ...], told: str) -> None:
    command = [sys.executable, "-m", "npudoctor", "fleet", "check", "--engine", "slurm", "-w", "n", *words]
    environment = {**os.environ, "PATH": "/nonexistent"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (64, "", f"npudoctor: {told}\n")


def test_only_what_shapes_another_step_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npudoctor.fleet.slurm.find_trusted_program", lambda name: f"/usr/bin/{name}")
    gathering = Gathering(Request(("n",), ("npudoctor",), 60.0, 1, 9.5), lambda _answer: None)
    of_a_site = {"SLURM_PARTITION": "p", "SLURM_ACCOUNT": "a", "SLURM_GRES": "npu:8"}
    outside = _srun_words(gathering, {**of_a_site, "SLURM_LABELIO": "1", "SLURM_GPUS": "8"})
    dropped = [word for before, word in zip(outside, outside[1:]) if before == "-u"]
    assert dropped == ["SLURM_LABELIO"] and "--immediate=10" in outside and "--time=2" in outside
    inside = _srun_words(gathering, {**of_a_site, "SLURM_JOB_ID": "7", "SLURM_GPUS": "8"})
    assert [word for before, word in zip(inside, inside[1:]) if before == "-u"] == ["SLURM_GPUS"]
    assert "SLURM_OVERLAP=1" in inside
