"""run under a real Slurm, in namespaces of its own: one check a step, one signal a task, the job's status.

A network namespace, so that its ports are nobody's; a pid namespace, so that nothing of it is left.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest
from tests.support.slurm import CONFIGURATION, STAGE

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]

NOTES = """
import os, signal, time
def note(number, frame):
    with open("heard." + os.environ["SLURM_LOCALID"], "a") as file:
        file.write(signal.Signals(number).name + "\\n")
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, note)
open("up." + os.environ["SLURM_LOCALID"], "w").close()
end = time.monotonic() + 60
while time.monotonic() < end and not os.path.exists("over"):
    time.sleep(0.05)
"""
CHECK = '''
from npudoctor import *
@check("counts", scope=Scope.JOB, codes={{"counts.bad": ERROR}})
def counts(host):
    """Counts."""
    with open("{folder}/asked", "a") as file:
        file.write("asked\\n")
    return
    yield
'''


@pytest.fixture
def cluster(tmp_path: Path, need: Callable[..., None]) -> Iterator[Callable[[str], str]]:
    """Runs lines of bash on a Slurm of one node, in which $RUN is `npudoctor run`."""
    need("munged", "slurmctld", "slurmd", "srun", "unshare", "ip")
    (tmp_path / "slurm.conf").write_text(CONFIGURATION)
    (tmp_path / "checks.d").mkdir(mode=0o755)
    (tmp_path / "checks.d/counts.py").write_text(CHECK.format(folder=tmp_path))
    (tmp_path / "checks.d/counts.py").chmod(0o644)
    (tmp_path / "notes.py").write_text(NOTES)
    (tmp_path / "home").mkdir()
    python = shlex.quote(sys.executable)
    variables = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "CONF": str(tmp_path / "slurm.conf"),
        "WORK": str(tmp_path), "RUN": f"{python} -m npudoctor run", "PYTHON": sys.executable,
        "NPUDOCTOR_CHECKS_DIR": str(tmp_path / "checks.d"), "NPUDOCTOR_EXPECT": "none",
    }  # fmt: skip

    def lines(text: str) -> str:
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--uts", "--net", "--fork", "--mount-proc", "--kill-child",
             "bash", "-c", STAGE + textwrap.dedent(text)],
            env=variables, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield lines


def test_a_step_asks_once_and_has_its_status(cluster: Callable[[str], str]) -> None:
    """Also through a shell of each task's own, so that our parent is not the launcher."""
    told = cluster("""
        srun -n 8 --overcommit $RUN sh -c 'sleep 1'; echo "status $?"
        wc -l <asked; rm asked
        srun -n 4 --overcommit bash -c "$RUN sh -c 'sleep 1; exit 7'; exit \\$?"; echo "status $?"
        wc -l <asked; rm asked
        ls /run/npudoctor
    """)
    assert told.split("\n") == ["status 0", "1", "status 7", "1", ""]


def test_what_the_batch_system_sends_arrives_once(cluster: Callable[[str], str]) -> None:
    """slurmstepd signals every process of the step, ours and the job."""
    told = cluster("""
        srun -n 2 --overcommit $RUN $PYTHON notes.py &
        until [ -e up.0 -a -e up.1 ]; do sleep 0.1; done
        job=$(squeue -h -o %i)
        for signal in USR1 USR1 TERM; do scancel --signal=$signal $job; sleep 1; done
        touch over
        wait
        cat heard.0 heard.1
    """)
    assert told.split() == ["SIGUSR1", "SIGUSR1", "SIGTERM"] * 2
