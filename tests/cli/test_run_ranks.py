"""run under a launcher: one check for all ranks of a node, and never the answer of another launch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Optional

import pytest

from .command import Npudoctor, heed_signals
from .running import quiet_machine, wait_for

pytestmark = pytest.mark.once

# Sets what torchrun sets, starts the ranks as children of its own, and says how each ended.
LAUNCHER = """
import json, os, subprocess, sys, time
size, line = int(sys.argv[1]), json.loads(sys.argv[2])
more = json.loads(sys.argv[3])
ranks = []
for rank in range(size):
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "GROUP_RANK": 0,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500, "TORCHELASTIC_RUN_ID": "none",
            "TORCHELASTIC_RESTART_COUNT": 0}
    variables = {**os.environ, **{k: str(v) for k, v in told.items()}, **more.get(str(rank), {})}
    if more.get(str(rank), {}).get("LATE"):
        time.sleep(float(more[str(rank)]["LATE"]))
    ranks.append(subprocess.Popen(line, env=variables, stderr=subprocess.PIPE, stdout=subprocess.PIPE))
ended = []
for one in ranks:
    out, err = one.communicate()
    ended.append([one.returncode, out.decode(), err.decode()])
print(json.dumps(ended))
"""
COUNT = "with open('{folder}/asked', 'a') as file:\n    file.write('asked\\n')\ntime.sleep(0.3)\n"


# Root has one such folder on a machine; a suite beside this one meets there too.
ROOTS = Path("/run/npudoctor")
APART = ["unshare", "-m", "sh", "-c", f'mount --bind "$0" {ROOTS} && exec "$@"']


class Apart(Npudoctor):
    """The command that sees a folder of its own in the place of root's."""

    def argv(self, *arguments: str) -> list[str]:
        return [*APART, str(self.folder / "runtime/npudoctor"), *super().argv(*arguments)]


@pytest.fixture
def npudoctor(tmp_path: Path) -> Npudoctor:
    """The command, with a meeting place of its own."""
    if os.geteuid() != 0:
        return Npudoctor(tmp_path)
    ROOTS.mkdir(mode=0o700, exist_ok=True)
    return Apart(tmp_path)


@pytest.fixture
def run(npudoctor: Npudoctor) -> Npudoctor:
    """The command on a machine that is ready, with a check that counts how often it is asked."""
    npudoctor.drop_in("counts", COUNT.format(folder=npudoctor.folder) + "return\nyield", scope="JOB")
    runtime = npudoctor.folder / "runtime"
    runtime.mkdir(mode=0o700)
    (runtime / "npudoctor").mkdir(mode=0o700)
    return quiet_machine(npudoctor, XDG_RUNTIME_DIR=str(runtime))


def asked(run: Npudoctor) -> int:
    """How often the machine was asked, since the last time."""
    path = run.folder / "asked"
    count = path.read_text().count("asked") if path.exists() else 0
    path.unlink(missing_ok=True)
    return count


def launch(
    run: Npudoctor, *words: str, size: int = 8, ranks: Optional[dict[str, Any]] = None, through: str = ""
) -> list[list[Any]]:
    """Start all ranks, each by a line of its own shell when there is one; status, output, error of each."""
    line = json.dumps([*(["bash", "-c", through, "bash"] if through else []), *run.argv("run", *words)])
    done = subprocess.run(
        [sys.executable, "-c", LAUNCHER, str(size), line, json.dumps(ranks or {})],
        env=run.environment({}), cwd=run.folder, capture_output=True, timeout=100, check=True,
    )  # fmt: skip
    found: list[list[Any]] = json.loads(done.stdout)
    return found


def folder_of(run: Npudoctor) -> Path:
    """The folder where ranks meet."""
    return run.folder / "runtime/npudoctor"


def left(run: Npudoctor) -> list[str]:
    """What lies in it."""
    return sorted(path.name for path in folder_of(run).iterdir())


def test_eight_ranks_cause_one_check(run: Npudoctor) -> None:
    ended = launch(run, "sh", "-c", 'echo "$LOCAL_RANK"; sleep 0.5; exit "$LOCAL_RANK"')
    assert ended == [[rank, f"{rank}\n", ""] for rank in range(8)]
    assert asked(run) == 1
    assert left(run) == []


def test_each_launch_asks_anew(run: Npudoctor) -> None:
    for _launch in range(2):
        launch(run, "sleep", "0.3", size=2)
        assert asked(run) == 1


def test_a_rank_that_comes_late_has_the_answer_too(run: Npudoctor) -> None:
    launch(run, "sleep", "2", size=2, ranks={"1": {"LATE": "1.0"}})
    assert asked(run) == 1


def test_a_rank_that_comes_after_a_short_job_has_the_answer_too(run: Npudoctor) -> None:
    launch(run, "true", size=2, ranks={"1": {"LATE": "0.7"}})
    assert asked(run) == 1


def test_ranks_whose_commands_name_them_ask_once(run: Npudoctor) -> None:
    """As launchers that add --local-rank=N do."""
    launch(run, "sh", "-c", "sleep 0.5", "sh", size=3, through='exec "$@" --local-rank="$LOCAL_RANK"')
    assert asked(run) == 1


def test_a_shell_that_names_its_rank_is_no_launcher(run: Npudoctor) -> None:
    """`mpirun bash -c 'export LOCAL_RANK=...; ...'`: the shell's own variables do not tell."""
    ranks = {
        str(rank): {"OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": "3"}
        for rank in range(3)
    }
    line = 'export LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK; "$@"; exit $?'
    line = f"exec env -u LOCAL_RANK -u LOCAL_WORLD_SIZE -u TORCHELASTIC_RUN_ID bash -c '{line}' bash \"$@\""
    launch(run, "sleep", "0.5", size=3, ranks=ranks, through=line)
    assert asked(run) == 1


def test_what_is_not_ours_in_the_folder_stays_and_hinders_nobody(run: Npudoctor) -> None:
    folder = folder_of(run)
    folder.mkdir(mode=0o700, exist_ok=True)
    strangers = [folder / f".stranger-{os.getpid()}", folder / f"stranger-{os.getpid()}"]
    try:
        strangers[0].touch()
        strangers[1].mkdir()
        assert [status for status, _out, _err in launch(run, "sleep", "0.3", size=2)] == [0, 0]
        assert asked(run) == 1 and strangers[0].exists() and strangers[1].exists()
    finally:
        strangers[0].unlink()
        strangers[1].rmdir()


def test_the_launchers_last_launch_gives_no_answer_to_its_next(run: Npudoctor) -> None:
    """With the same variables and while the last one runs: one of this rank's number took that answer."""
    line = 'if [ "$LOCAL_RANK" = 1 ]; then "$@" & sleep 1.5; "$@"; wait; else exec "$@"; fi'
    launch(run, "sleep", "3", size=2, through=line)
    assert asked(run) == 2


def test_a_rank_whose_folder_is_gone_is_told_by_the_check(run: Npudoctor) -> None:
    done = run.shell('mkdir gone; cd gone; rmdir ../gone; LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 "$@" run true')
    assert done.status == 125 and "working-directory.gone" in done.err


def test_when_it_is_not_ready_no_rank_starts_and_one_says_why(run: Npudoctor) -> None:
    body = COUNT.format(folder=run.folder) + 'yield Finding("counts.bad", "it would fail")'
    run.drop_in("counts", body, scope="JOB")
    ended = launch(run, "touch", "begun", size=4)
    assert [status for status, _out, _err in ended] == [125] * 4
    assert not (run.folder / "begun").exists() and asked(run) == 1
    assert "it would fail" in ended[0][2]
    for _status, _out, err in ended[1:]:
        assert (
            err == "npudoctor: not ready: 1 problem (counts.bad); "
            "the job was not started (--force starts it anyway)\n"
        )


def test_undetermined_is_said_by_one(run: Npudoctor) -> None:
    run.drop_in("counts", 'raise Unknown("dark")\nyield', scope="JOB")
    ended = launch(run, "sleep", "0.5", size=3)
    assert [err.count("the job is started") for _status, _out, err in ended] == [1, 0, 0]


def test_ranks_that_are_unlike_the_first_ask_by_themselves_at_once(run: Npudoctor) -> None:
    started = time.monotonic()
    unlike = dict.fromkeys(("LD_LIBRARY_PATH", "PYTHONPATH", "ASCEND_HOME_PATH"), "/nowhere")
    unlike["PATH"] = os.environ["PATH"] + ":/nowhere"
    ranks = {str(rank): {name: value} for rank, (name, value) in enumerate(unlike.items(), 2)}
    launch(run, "sleep", "0.5", size=2 + len(ranks), ranks=ranks)
    # The first two share one.
    assert asked(run) == 1 + len(ranks) and time.monotonic() - started < 20


def test_a_rank_without_a_first_one_waits_no_longer_than_the_deadline(run: Npudoctor) -> None:
    started = time.monotonic()
    launch(run, "--deadline", "2", "true", size=2, ranks={"0": {"LOCAL_RANK": "5"}})
    assert asked(run) == 2 and 2 <= time.monotonic() - started < 10


def test_when_the_first_rank_is_killed_the_others_ask_at_once(run: Npudoctor) -> None:
    body = f"open('{run.folder}/up-' + os.environ['LOCAL_RANK'], 'w')\n"
    run.drop_in(
        "counts", body + "time.sleep(300 if os.environ['LOCAL_RANK'] == '0' else 0)\nyield", scope="JOB"
    )
    told = {"LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29511"}
    ranks = [
        subprocess.Popen(
            run.argv("run", "true"), env=run.environment({**told, "LOCAL_RANK": str(rank)}),
            cwd=run.folder, start_new_session=True, stderr=subprocess.DEVNULL, preexec_fn=heed_signals,
        )
        for rank in range(2)
    ]  # fmt: skip
    wait_for(run.folder / "up-0")
    time.sleep(0.3)
    assert not (run.folder / "up-1").exists()
    started = time.monotonic()
    os.killpg(ranks[0].pid, signal.SIGKILL)
    assert ranks[1].wait(20) == 0 and time.monotonic() - started < 5
    assert (run.folder / "up-1").exists()
    ranks[0].wait(20)
    # What a killed one left goes with the next launch.
    run.drop_in("counts", scope="JOB")
    launch(run, "sleep", "0.3", size=2)
    assert left(run) == []


@pytest.mark.parametrize("alone", [{"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, {"SLURM_LOCALID": "0"}])
def test_a_job_that_is_alone_leaves_nothing(run: Npudoctor, alone: dict[str, str]) -> None:
    assert run("run", "true", **alone).status == 0
    assert left(run) == [] and asked(run) == 1
