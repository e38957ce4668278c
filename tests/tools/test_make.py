"""make lint is silent when all is well and says what to do when it is not; make format formats first."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Callable

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Says its name and its arguments, and fails where the second one is named in a file.
STUB = """#!/bin/sh
echo "$(basename $0) $*" >>{folder}/calls
echo "$(basename $0) speaks"
grep -qx "$(basename $0) $1" {folder}/failing && exit 1
exit 0
"""


@pytest.fixture
def make(tmp_path: Path, need: Callable[..., None]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a target of the Makefile with stubs for its tools; `failing`: "ruff check"."""
    need("make")
    (tmp_path / "bin").mkdir()
    for name in ("ruff", "mypy", "python"):
        (tmp_path / "bin" / name).write_text(STUB.format(folder=tmp_path))
        (tmp_path / "bin" / name).chmod(0o755)

    def make(target: str, *failing: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "failing").write_text("".join(f"{words}\n" for words in failing))
        (tmp_path / "calls").write_text("")
        done = [word for stamp in ("-dev", "-test", "") for word in ("-o", f"{tmp_path}/.installed{stamp}")]
        argv = ["make", "-s", "-C", str(ROOT), "--no-print-directory", target, f"VENV={tmp_path}", *done]
        # As the suite itself is run by make, whose children speak of levels: make[1].
        outer = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")
        variables = {name: value for name, value in os.environ.items() if name not in outer}
        return subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)

    return make


@pytest.mark.parametrize("target", ["lint", "release-check"])
def test_silent_when_all_is_well(
    target: str, make: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = make(target)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len((tmp_path / "calls").read_text().splitlines()) == {"lint": 9, "release-check": 2}[target]


def test_all_that_fails_says_what_to_do(
    make: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = make("lint", "ruff check", "python tools/index.py")
    said = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert done.returncode != 0 and done.stdout == ""
    assert said == [
        "ruff speaks",
        "make lint: run make format, then correct the lines above by hand",
        "python speaks",
        "make lint: run make docs",
    ]
    assert len((tmp_path / "calls").read_text().splitlines()) == 9  # a failure keeps no other from being told


def test_format_comes_before_what_only_complains(
    make: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """What ruff cannot mend, as a long line, may be what its formatter mends."""
    done = make("format", "ruff nothing")
    assert (done.returncode, done.stderr) == (0, "")
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[1] for call in calls] == ["format", "check", "format", "check"]
    assert "--fix" in calls[1] and "--fix" not in calls[3]
