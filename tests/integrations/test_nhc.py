"""The function for LBNL NHC, called as NHC calls its own.

NHC is in no distribution of ours. What stands in for it is its `die`, which prints the note as NHC 1.4 does,
"ERROR:  nhc:  Health check failed:  ...", and ends.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

FUNCTION = Path(__file__).parents[2] / "integrations/nhc/npudoctor.nhc"
NHC = """
TIMEOUT={timeout}
die() {{ local status=$1; shift; echo "ERROR:  nhc:  Health check failed:  $*"; exit "$status"; }}
. {function}
{line}
"""


def call(line: str, timeout: int = 30, **variables: str) -> tuple[int, str]:
    text = NHC.format(timeout=timeout, function=FUNCTION, line=line)
    done = subprocess.run(
        ["bash", "-c", text],
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture
def doctor(tmp_path: Path) -> Path:
    """An npudoctor that ends as its first argument after `check ... -q` says, or hangs."""
    program = tmp_path / "npudoctor"
    program.write_text(
        '#!/bin/sh\nfor word; do :; done\n[ "$word" != hang ] || sleep 60\necho "says $word"\nexit "$word"\n'
    )
    program.chmod(0o755)
    return program


def test_the_note_is_the_reason() -> None:
    real = Path(sys.executable).with_name("npudoctor")
    assert call(f"check_npudoctor {real} --expect none clock") == (0, "")
    status, note = call(f"check_npudoctor {real} --scope node --expect npu")
    failed = "ERROR:  nhc:  Health check failed:  check_npudoctor:  npudoctor: "
    assert (status, note) == (1, f"{failed}not ready: 1 problem (accelerator.missing)\n")


def test_undetermined_passes_unless_told(doctor: Path) -> None:
    assert call(f"check_npudoctor {doctor} 2") == (0, "")
    assert call("check_npudoctor /nowhere/npudoctor") == (0, "")
    status, note = call(f"check_npudoctor {doctor} 2", NPUDOCTOR_UNDETERMINED="fail")
    assert status == 1 and note.endswith("check_npudoctor:  npudoctor: says 2 (status 2)\n")


def test_it_ends_before_nhc_does(doctor: Path) -> None:
    began = time.monotonic()
    status, note = call(f"check_npudoctor {doctor} hang", timeout=6, NPUDOCTOR_UNDETERMINED="fail")
    assert (status, note.endswith("npudoctor: no verdict (status 124)\n")) == (1, True)
    assert time.monotonic() - began < 6
