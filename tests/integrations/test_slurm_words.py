"""What the programs of integrations/slurm say: whole words, short enough for sinfo, and never nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[2] / "integrations/slurm"
CODES = [f"some-check.code-number-{n}" for n in range(30)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The programs, with a doctor that says what is in the file `says` and ends as `status` tells."""
    shutil.copytree(PROGRAMS, tmp_path / "slurm")
    doctor = tmp_path / "doctor"
    doctor.write_text(f'#!/bin/sh\ncat "{tmp_path}/says"\nexit "$(cat "{tmp_path}/status")"\n')
    doctor.chmod(0o755)
    settings = tmp_path / "slurm/npudoctor.conf"
    text = settings.read_text().replace("/opt/npudoctor/bin/npudoctor", str(doctor))
    settings.write_text(text + f"STATE={tmp_path}/state\n")
    (tmp_path / "state").mkdir()
    return tmp_path


def run(
    folder: Path, program: str, says: str, status: int, **variables: str
) -> subprocess.CompletedProcess[str]:
    (folder / "says").write_text(says + "\n")
    (folder / "status").write_text(str(status))
    return subprocess.run(
        ["sh", str(folder / "slurm" / program)],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(folder), "SLURM_JOB_ID": "7", **variables},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


def test_a_refusal_says_its_codes_where_slurmd_logs_them(folder: Path) -> None:
    done = run(folder, "prolog.sh", "not ready: 2 problems (a.b, c.d)", 1)
    assert (done.returncode, done.stderr) == (1, "npudoctor: a.b, c.d (job 7)\n")
    assert (folder / "state/reason").read_text() == "npudoctor: a.b, c.d"


def test_a_refusal_is_said_where_nothing_can_be_written(folder: Path) -> None:
    shutil.rmtree(folder / "state")
    (folder / "state").write_text("no folder")
    done = run(folder, "prolog.sh", "not ready: 1 problem (a.b)", 1)
    # Root's doctor has no folder for its answer then, and gives no verdict.
    assert "npudoctor: " in done.stderr and "(job 7" in done.stderr


@pytest.mark.parametrize(
    ("says", "status"),
    [("undetermined: no result from accelerator", 2), ("ModuleNotFoundError: npudoctor", 1), ("", 70)],
)
def test_what_could_not_be_judged_is_said_too(folder: Path, says: str, status: int) -> None:
    done = run(folder, "prolog.sh", says, status)
    assert done.returncode == 0
    assert done.stderr.startswith("npudoctor: ") and done.stderr.count("\n") == 1
    assert (says or f"status {status}") in done.stderr and "(job 7, which starts all the same)" in done.stderr
    ready = run(folder, "prolog.sh", "ready", 0)
    assert (ready.returncode, ready.stderr) == (0, "")


def test_many_codes_are_cut_between_codes(folder: Path) -> None:
    line = f"not ready: 30 problems ({', '.join(CODES)})"
    done = run(folder, "prolog.sh", line, 1)
    reason = (folder / "state/reason").read_text()
    assert reason.startswith("npudoctor: ") and reason.endswith(", ...") and len(reason) <= 200
    named = reason[len("npudoctor: ") : -len(", ...")].split(", ")
    assert named == CODES[: len(named)] and len(named) > 5
    assert f"{reason} (job 7)\n" == done.stderr


def test_the_tasks_line_is_cut_between_words(folder: Path) -> None:
    line = f"not ready: 30 problems ({', '.join(CODES)})"
    done = run(folder, "task-prolog.sh", line, 1, SLURMD_NODENAME="node7")
    said = done.stdout[len("print npudoctor: node7: ") :].rstrip("\n")
    assert (
        done.stdout.startswith("print npudoctor: node7: not ready: 30 problems (")
        and done.stdout.count("\n") == 1
    )
    assert len(said) <= 200 and said.endswith(" ...") and line.startswith(said[: -len(" ...")])
