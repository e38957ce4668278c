"""integrations/nhc/npudoctor.nhc in a bash that stands in for LBNL NHC, which no Debian package has.

Stood in for are the driver's parts that the function meets: `die` (which hands the reason to a shell between
single quotes), `log`, `dbg`, TIMEOUT, and the end of a run, which puts a node back into service through
ONLINE_NODE. The real NHC does much more; that its helpers drain and resume, these tests do not show.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

import pytest

FILE = Path(__file__).parents[2] / "integrations/nhc/npudoctor.nhc"
NHC = """
set -f
TIMEOUT=${{TIMEOUT:-30}}
OFFLINE_NODE=offline ONLINE_NODE=online HOSTNAME=node1
offline() {{ echo "offline $1: $2"; }}
online() {{ echo "online $1"; }}
log() {{ echo "log $*"; }}
dbg() {{ :; }}
die() {{
    local status=$1
    shift
    eval $OFFLINE_NODE "'$HOSTNAME'" "'$*'"
    [[ "$ALL" == 1 ]] && return 0
    exit $status
}}
. {file}
{lines}
eval $ONLINE_NODE "'$HOSTNAME'"
"""
REAL = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m npudoctor "$@"\n'

Run = Callable[..., list[str]]


@pytest.fixture
def nhc(tmp_path: Path) -> Run:
    """Runs a check line of nhc.conf where npudoctor is this program; what the run says, and its status."""

    def run(doctor: str, line: str = "check_npudoctor", **variables: str) -> list[str]:
        program = tmp_path / "npudoctor"
        program.write_text(doctor)
        program.chmod(0o755)
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "NPUDOCTOR": str(program), **variables}
        script = NHC.format(file=shlex.quote(str(FILE)), lines=line)
        done = subprocess.run(
            ["bash", "-c", script], env=environment, capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert not done.stderr, done.stderr
        return [*done.stdout.splitlines(), f"status {done.returncode}"]

    return run


def says(line: str, status: int) -> str:
    """A npudoctor that has this verdict."""
    return f"#!/bin/sh\ncat <<'X'\n{line}\nX\nexit {status}\n"


def test_the_reason_of_a_sick_node_is_kept(nhc: Run) -> None:
    line = "check_npudoctor hccl-ports --expect none"
    assert nhc(REAL, line, HCCL_IF_BASE_PORT="60000") == ["online node1", "status 0"]
    assert nhc(REAL, line, HCCL_IF_BASE_PORT="nonsense") == [
        "offline node1: check_npudoctor:  not ready: 1 problem (hccl-ports.bad-value)",
        "status 1",
    ]


def test_without_options_the_node_is_asked_what_check_asks(nhc: Run) -> None:
    assert nhc('#!/bin/sh\necho "ready $*"\n', "log() { :; }; dbg() { echo $*; }; check_npudoctor")[0] == (
        "check_npudoctor: ready check --scope node --deadline 9 --lang en -q"
    )


def test_undetermined_neither_drains_nor_resumes(nhc: Run) -> None:
    doctor = says("undetermined: no result from accelerator", 2)
    assert nhc(doctor) == [
        "log WARNING:  check_npudoctor:  undetermined: no result from accelerator",
        "status 0",
    ]
    assert nhc(doctor, NPUDOCTOR_UNDETERMINED="fail") == [
        "offline node1: check_npudoctor:  undetermined: no result from accelerator",
        "status 1",
    ]


@pytest.mark.parametrize(
    ("doctor", "told"),
    [
        ("#!/bin/sh\nexit 1\n", "npudoctor gave no verdict (status 1)"),
        (says("ImportError: no npudoctor", 1), "ImportError: no npudoctor (status 1)"),
        (says("no such option: --bogus", 64), "no such option: --bogus (status 64)"),
        ("#!/nonexistent\n", "No such file or directory (status 127)"),
        ("#!/bin/sh\nprintf 'no newline'\nexit 1\n", "no newline (status 1)"),
        (says("", 0), "npudoctor gave no verdict (status 0)"),
    ],
    ids=["silent", "python", "usage", "interpreter", "cut", "no-line"],
)  # fmt: skip
def test_what_is_no_verdict_is_undetermined(nhc: Run, doctor: str, told: str) -> None:
    lines = nhc(doctor)
    assert lines[0].startswith("log WARNING:  check_npudoctor:  ") and lines[0].endswith(told)
    assert lines[1:] == ["status 0"]


@pytest.mark.parametrize(
    "doctor",
    [
        "#!/bin/sh\nexec sleep 60\n",
        "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1; done\n",
        # What it started holds the pipe and is out of reach.
        "#!/bin/sh\nsetsid sleep 8 &\nexec sleep 60\n",
    ],
    ids=["sleeps", "ignores-term", "holds-the-pipe"],
)
def test_one_that_hangs_is_ended(nhc: Run, doctor: str) -> None:
    began = time.monotonic()
    lines = nhc(doctor, NPUDOCTOR_SECONDS="1")
    assert lines == ["log WARNING:  check_npudoctor:  npudoctor gave no answer within 1 s", "status 0"]
    assert time.monotonic() - began < 6


def test_the_watchdog_of_nhc_comes_later(nhc: Run) -> None:
    began = time.monotonic()
    lines = nhc("#!/bin/sh\nexec sleep 60\n", NPUDOCTOR_SECONDS="60", TIMEOUT="7")
    assert lines[0] == "log WARNING:  check_npudoctor:  npudoctor gave no answer within 2 s"
    assert time.monotonic() - began < 5
    assert "is not a number" in nhc(REAL, NPUDOCTOR_SECONDS="1; touch x")[0]


def test_what_npudoctor_says_is_data(nhc: Run, tmp_path: Path) -> None:
    """NHC's `eval` would run what stands between quotes."""
    lines = nhc(says("not ready: '; touch owned; echo '$(touch owned)`touch owned`\x1b[31m" + "x" * 9000, 1))
    assert lines[0].startswith(
        "offline node1: check_npudoctor:  not ready: ?; touch owned; echo ??(touch owned)?"
    )
    assert len(lines[0]) < 250 and lines[0].isprintable() and not (tmp_path / "owned").exists()


def test_all_checks_go_on(nhc: Run) -> None:
    """`nhc -a`: the function ends, and says that it failed."""
    lines = nhc(says("not ready: 1 problem (a.b)", 1), 'check_npudoctor; echo "returned $?"', ALL="1")
    assert lines[:2] == ["offline node1: check_npudoctor:  not ready: 1 problem (a.b)", "returned 1"]
