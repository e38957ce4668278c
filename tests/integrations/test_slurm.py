"""integrations/slurm under a real slurmctld and slurmd: drained with our reason, healed, resumed, cleaned."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest
from tests.support.over import mount_over
from tests.support.slurm import CONFIGURATION, STAGE

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "integrations/slurm"
MORE = """
HealthCheckInterval=1
HealthCheckNodeState=IDLE
HealthCheckProgram={folder}/slurm/health.sh
SchedulerParameters=nohold_on_prolog_fail
"""
# Until the reason of the node is this, or 20 s have gone by.
LINES = """
reason() { sinfo -h -N -o "%t %E" | sort -u | tr -d "*"; }
becomes() { for _ in $(seq 200); do [ "$(reason)" = "$1" ] && break; sleep 0.1; done; reason; }
over() {
@WRITABLE@
}
sick() {
@OVER@
fallocate -l 63m /tmp/full
}
well() { umount -R /tmp; }
""".replace("@OVER@", mount_over("/tmp", "size=64m")).replace("@WRITABLE@", mount_over("/tmp", "mode=1777"))
# The doctor as these programs find it; what it does is in the file `how`: the real one, or one that hangs.
DOCTOR = """#!/bin/sh
[ ! -e {folder}/hang ] || sleep 300
[ ! -e {folder}/open ] || exit 2
[ ! -e {folder}/broken ] || exec {python} -c "import nonsense"
NPUDOCTOR_EXPECT=none exec {python} -m npudoctor "$@"
"""

Run = Callable[..., list[str]]


@pytest.fixture
def slurm(trusted: Path, need: Callable[..., None]) -> Iterator[Run]:
    """Runs lines of bash on a Slurm of one node that has our programs."""
    need("munged", "slurmctld", "slurmd", "srun", "unshare", "ip")
    shutil.copytree(PROGRAMS, trusted / "slurm")
    doctor = trusted / "npudoctor"
    doctor.write_text(DOCTOR.format(folder=trusted, python=shlex.quote(sys.executable)))
    doctor.chmod(0o755)
    settings = trusted / "slurm/npudoctor.conf"
    text = settings.read_text().replace("/opt/npudoctor/bin/npudoctor", str(doctor))
    settings.write_text(
        text.replace("SECONDS_MOST=7", "SECONDS_MOST=3") + "SLURM_CONF=/run/slurm/slurm.conf\n"
    )

    def run(lines: str, *, health: bool = True, undetermined: str = "keep", **programs: str) -> list[str]:
        settings.write_text(settings.read_text().replace("UNDETERMINED=keep", f"UNDETERMINED={undetermined}"))
        more = MORE.format(folder=trusted) if health else "SchedulerParameters=nohold_on_prolog_fail\n"
        named = "".join(f"{option}={trusted}/slurm/{name}\n" for option, name in programs.items())
        (trusted / "slurm.conf").write_text(CONFIGURATION + more + named)
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--uts", "--net", "--ipc", "--fork", "--mount-proc",
             "--kill-child",
             "bash", "-c", STAGE + LINES + textwrap.dedent(lines)],
            env={"PATH": os.environ["PATH"], "CONF": str(trusted / "slurm.conf"), "WORK": str(trusted),
                 "HOME": "/root", "PYTHON": sys.executable, "ROOT": str(ROOT)},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    yield run


SICK = "npudoctor: disk-space.full"


def test_a_sick_node_is_drained_and_resumed_when_it_is_well(slurm: Run) -> None:
    told = slurm(f"sick; becomes 'drain {SICK}'; well; becomes 'idle none'")
    assert told == [f"drain {SICK}", "idle none"]


def test_the_reason_of_others_is_kept(slurm: Run) -> None:
    told = slurm("""
        scontrol update NodeName=localhost State=DRAIN Reason="fan is loud"
        sick; sleep 3; reason
        well; sleep 3; reason
    """)
    assert told == ["drain fan is loud", "drain fan is loud"]


def test_the_reason_of_others_that_comes_while_we_ask_is_kept(slurm: Run) -> None:
    told = slurm(
        """
        sick
        printf '#!/bin/sh\\nsleep 1\\necho "not ready: 1 problem (a.b)"\\nexit 1\\n' >npudoctor
        SLURMD_NODENAME=localhost slurm/health.sh & sleep 0.5
        scontrol update NodeName=localhost State=DRAIN Reason="fan is loud"
        wait $!; reason
        """,
        health=False,
    )
    assert told == ["drain fan is loud"]


def test_a_broken_doctor_is_no_verdict(slurm: Run) -> None:
    """A Python that does not find npudoctor ends with 1, as a sick node does."""
    told = slurm(
        """
        touch broken
        srun hostname; SLURMD_NODENAME=localhost slurm/health.sh; becomes "idle none"
        """,
        health=False,
        Prolog="prolog.sh",
    )
    assert told == ["localhost", "idle none"]


def test_the_prolog_drains_and_the_reason_is_not_lost(slurm: Run) -> None:
    told = slurm(
        """
        sick
        timeout 10 srun -Q true; echo "job $?"
        becomes "drain Prolog error"
        SLURMD_NODENAME=localhost slurm/health.sh; reason
        well
        SLURMD_NODENAME=localhost slurm/health.sh; reason
        srun hostname
        grep -o 'npudoctor: disk-space.full (job .*)' /run/slurm/slurmd.log | head -1
        """,
        health=False,
        Prolog="prolog.sh",
    )
    assert told[0].startswith("job ") and told[0] != "job 0"
    assert told[1:5] == ["drain Prolog error", f"drain {SICK}", "idle none", "localhost"]


def test_a_job_that_lives_beside_another_harms_it_not_and_is_not_harmed(slurm: Run) -> None:
    """It holds the ports of the job to come, and cache servers of two users live in it."""
    told = slurm(
        """
        cat >lives.py <<'X'
        import pathlib, socket, sys, time
        sys.path.insert(0, sys.argv[1])
        from tests.support.machine import Machine, older
        held = [socket.create_server(("", port)) for port in range(60000, 60016)]
        machine = Machine()
        machine.tmp = pathlib.Path("/tmp")
        theirs = machine.server(50100, "--uid", "4711", "--folder", "u4711", "--log-folder", "u4711/log")
        for server in (theirs, machine.server(50200)):
            older(server.socket, 600)
        pathlib.Path("up").touch()
        time.sleep(60)
        X
        sed -i 's/^        //' lives.py
        over
        srun -Q "$PYTHON" lives.py "$ROOT" >lives.txt 2>&1 &
        for _ in $(seq 100); do [ -e up ] && break; sleep 0.1; done; ls up
        srun hostname; echo "job $?"
        for _ in $(seq 100); do [ "$(squeue -h -t CG,R | wc -l)" = 1 ] && break; sleep 0.1; done
        reason | cut -d ' ' -f 2; ipcs -m | grep -c '^0x'; ss -Hltn | grep -c ':600[01]'
        """,
        health=False,
        Prolog="prolog.sh",
        Epilog="epilog.sh",
    )
    assert told == ["up", "localhost", "job 0", "none", "2", "16"]


def test_another_prologs_error_is_not_ours(slurm: Run) -> None:
    told = slurm(
        """
        srun hostname
        scontrol update NodeName=localhost State=DRAIN Reason="Prolog error"
        sick
        SLURMD_NODENAME=localhost slurm/health.sh; becomes "drain Prolog error"
        """,
        health=False,
        Prolog="prolog.sh",
    )
    assert told == ["localhost", "drain Prolog error"]


def test_undetermined_drains_only_when_asked(slurm: Run) -> None:
    told = slurm("touch open; sleep 3; reason; srun hostname; rm open", Prolog="prolog.sh")
    assert told == ["idle none", "localhost"]
    reason = "drain npudoctor: no verdict, status 2"
    assert slurm(f"touch open; becomes '{reason}'", undetermined="drain") == [reason]


def test_a_doctor_that_hangs_holds_nothing(slurm: Run) -> None:
    told = slurm(
        """
        touch hang
        began=$SECONDS; srun hostname; [ $((SECONDS - began)) -lt 10 ] && echo bounded; becomes "idle none"
        """,
        health=False,
        Prolog="prolog.sh",
    )
    assert told == ["localhost", "bounded", "idle none"]


def test_the_task_hears_of_its_own_environment(slurm: Run) -> None:
    told = slurm(
        "HCCL_IF_BASE_PORT=nonsense srun -n 2 --overcommit sh -c 'echo task'; srun true; echo over",
        health=False,
        TaskProlog="task-prolog.sh",
    )
    assert sorted(told) == [
        "npudoctor: localhost: not ready: 1 problem (hccl-ports.bad-value)", "over", "task", "task"
    ]  # fmt: skip


def test_the_epilog_cleans_up_after_the_user_of_the_job_alone(slurm: Run) -> None:
    told = slurm(
        """
        cat >leave.py <<'X'
        import pathlib, sys
        sys.path.insert(0, sys.argv[1])
        from tests.support.machine import Machine, older
        machine = Machine()
        machine.tmp = pathlib.Path("/tmp")
        older(machine.dead_server(int(sys.argv[2]), *sys.argv[3:]).socket, 600)
        X
        sed -i 's/^        //' leave.py
        over
        "$PYTHON" leave.py "$ROOT" 50100 --uid 4711 --folder u4711 --log-folder u4711/log
        ipcs -m | grep -c '^0x'
        srun "$PYTHON" leave.py "$ROOT" 50200; echo "job $?"
        for _ in $(seq 100); do [ "$(ipcs -m | grep -c '^0x')" = 1 ] && break; sleep 0.1; done
        ipcs -m | grep '^0x' | awk '{print $3}'
        becomes "idle none"
        """,
        health=False,
        Epilog="epilog.sh",
    )
    assert told == ["1", "job 0", "4711", "idle none"]


FLEET = '"$PYTHON" -m npudoctor fleet check --engine slurm --format jsonl --program $PWD/npudoctor'


def test_the_engine_asks_inside_and_outside_of_an_allocation(slurm: Run) -> None:
    told = slurm(
        f"""
        {FLEET} -w localhost,node9 >outside; echo $?
        salloc -Q -N1 {FLEET} >inside; echo $?
        scontrol update NodeName=localhost State=DRAIN Reason=test
        {FLEET} -w localhost >drained; echo $?
        {FLEET} -w localhost --node-timeout nothing 2>/dev/null; echo $?
        cat outside inside drained
        """,
        health=False,
    )
    assert told[:4] == ["2", "0", "2", "64"]
    *both, inside, drained = map(json.loads, told[4:])
    outside, unknown = sorted(both, key=lambda row: str(row["node"]))
    # The only node of this Slurm is called localhost, and so it takes every name for it.
    assert unknown["node"] == "node9" and "Slurm started this on localhost" in unknown["error"]
    assert outside["report"]["exit_code"] == inside["report"]["exit_code"] == 0
    assert drained["error"] == "Slurm starts no jobs on it (state drain: test)"


def test_the_engine_ends_a_step_that_hangs(slurm: Run) -> None:
    told = slurm(
        f"""
        touch hang
        {FLEET} -w localhost --node-timeout 2 >timed; echo $?
        {FLEET} -w localhost >stopped & asker=$!
        for _ in $(seq 100); do [ "$(squeue -h -t R | wc -l)" = 1 ] && break; sleep 0.1; done
        sleep 1; kill -TERM $asker; wait $asker; echo $?
        for _ in $(seq 100); do [ "$(squeue -h | wc -l)" = 0 ] && break; sleep 0.1; done
        squeue -h | wc -l; pgrep -x sleep | wc -l
        cat timed stopped
        """,
        health=False,
    )
    assert told[:4] == ["2", "143", "0", "0"], told
    timed, stopped = map(json.loads, told[4:])
    assert (timed["error"], stopped["error"]) == ("no answer in time", "stopped before the node answered")


def test_the_engine_lets_nodes_meet(slurm: Run) -> None:
    told = slurm(
        '"$PYTHON" -m npudoctor fleet pairs --engine slurm -w localhost --ports 61000-61001; echo $?',
        health=False,
    )
    assert told == ["all 1 nodes reach each other on 61000-61001 (0 connections)", "0"]


def test_the_line_of_the_manual_leaves_out_whoever_is_not_proven_ready(slurm: Run) -> None:
    """The dead and the silent too; where all are ready nobody is left out."""
    told = slurm(
        f"""
        lines() {{ {FLEET.replace("--format jsonl", "--nodes not-ready,undetermined,silent")} "$@"; }}
        bad=$(lines -w localhost,node9); echo "$? $bad"
        bad=$(lines -w localhost); echo "$? $bad"
        [ $? -le 2 ] && srun --exclude="$bad" hostname
        """,
        health=False,
    )
    assert told == ["2 node9", "0 ", "localhost"]
