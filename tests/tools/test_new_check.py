"""make new-check: both files run as they are written, and what cannot be is refused in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "new_check.py"
FILES = ("checks/cann/brand_new.py", "tests/checks/cann/test_brand_new.py")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """As much of a checkout as the tool looks at."""
    for folder in ("checks/cann", "tests/checks/cann"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "checks/cann/__init__.py").touch()
    return tmp_path


def new_check(tree: Path, name: str, group: str) -> subprocess.CompletedProcess[str]:
    """What the tool answers in this tree."""
    argv = [sys.executable, str(TOOL), name, group, "--root", str(tree)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_both_files_are_written_and_run(tree: Path) -> None:
    done = new_check(tree, "brand-new", "cann")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == list(FILES)
    start = (
        "import sys, npudoctor.checks.cann as cann, pytest; cann.__path__.append('checks/cann');"
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'tests']))"
    )
    tried = subprocess.run(
        [sys.executable, "-c", start], cwd=tree, capture_output=True, text=True, check=False
    )
    assert "1 failed, 5 passed" in tried.stdout
    assert "write what stands behind TODO in checks/cann/brand_new.py" in tried.stdout


def test_both_files_pass_lint(tree: Path) -> None:
    new_check(tree, "brand-new", "cann")
    for command in (["check"], ["format", "--check"]):
        argv = [sys.executable, "-m", "ruff", *command, "--config", str(ROOT / "pyproject.toml"), *FILES]
        done = subprocess.run(argv, cwd=tree, capture_output=True, text=True, check=False)
        if "No module named ruff" in done.stderr:
            pytest.skip("ruff is not installed: it is no dependency of the tests")
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "group", "why"),
    [
        ("te-topi", "cann", "'te-topi' is taken by another check, a group or a tag"),
        ("Brand-New", "cann", "is not an id"),
        ("brand_new", "cann", "is not an id"),
        ("../evil", "cann", "is not an id"),
        ("", "cann", "is not an id"),
        ("brand-new", "nope", "no group 'nope': cann"),
        ("brand-new", "../cann", "no group '../cann'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tree: Path, name: str, group: str, why: str) -> None:
    done = new_check(tree, name, group)
    assert (done.returncode, done.stdout) == (64, "")
    assert why in done.stderr and done.stderr.count("\n") == 1
    assert not any((tree / path).exists() for path in FILES)


def test_what_is_there_is_never_written_over(tree: Path) -> None:
    (tree / FILES[1]).write_text("mine")
    done = new_check(tree, "brand-new", "cann")
    assert done.returncode == 64 and f"{FILES[1]} exists" in done.stderr
    assert (tree / FILES[1]).read_text() == "mine" and not (tree / FILES[0]).exists()
