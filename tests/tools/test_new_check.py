"""make new-check: what it writes works in every group, and what cannot be is refused in one line."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Callable, Optional

import pytest
from tests.support.packages import copy

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "new_check.py"
GROUPS = sorted(path.parent.name for path in ROOT.glob("checks/*/__init__.py"))
FAULTS = "src/npudoctor/rehearsal/faults"
CHECK, TEST, FAULT = FILES = (
    "checks/device/brand_new.py",
    "tests/checks/device/test_brand_new.py",
    f"{FAULTS}/accelerators.py",
)
# What holds all checks to the same rules, and needs neither commands nor made-up machines of every era.
RULES = (
    "tests/checking",
    "tests/checks/test_quick.py",
    "tests/checks/tuning/test_everywhere.py",
    "tests/core/test_messages.py",
    "tests/render/test_advice.py",
    "tests/scenarios/test_empty.py",
)
# Of these what is about all checks at once, or about a new one.
ABOUT_NEW = "by_hand or advice or empty or brand"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """As much of a checkout as the tool looks at."""
    for folder in ("checks/device", "tests/checks/device"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "checks/device/__init__.py").touch()
    shutil.copytree(ROOT / FAULTS, tmp_path / FAULTS)
    return tmp_path


def new_check(tree: Path, name: str, group: str) -> subprocess.CompletedProcess[str]:
    """What the tool answers in this tree."""
    argv = [sys.executable, str(TOOL), name, group, "--root", str(tree)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@cache
def _loaded_tool() -> ModuleType:
    """The tool in this process: loading npudoctor is nearly all that a start of it takes."""
    path = list(sys.path)
    spec = importlib.util.spec_from_file_location("new_check_of_the_tools", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)  # it adds its folder to the path
    finally:
        sys.path[:] = path
    return module


def told_here(tree: Path, name: str, group: str) -> subprocess.CompletedProcess[str]:
    """The same of the tool in this process."""
    argv, out, error = [str(TOOL), name, group, "--root", str(tree)], StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(error):
        patch.setattr(sys, "argv", argv)
        status = _loaded_tool().main()
    return subprocess.CompletedProcess(argv, status, out.getvalue(), error.getvalue())


def fill_in(path: Path) -> None:
    """Do what TODO asks for, as somebody in a hurry would: comments go, and texts say something."""
    text = re.sub(r"^ *# TODO.*\n|  # TODO.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    path.write_text(re.sub(r'TODO: [^"\n]+', "All of it is known.", text), encoding="utf-8")


def run(tree: Path, *argv: str, lack: Optional[Callable[[str], None]] = None) -> str:
    """The output of a Python that takes npudoctor from this tree; AssertionError where it fails. With `lack`
    status 2 is what npudoctor ends with where this machine does not allow a rehearsal."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "PYTEST_ADDOPTS": "",
        "PYTEST_XDIST_WORKER": "",
    }
    done = subprocess.run(
        [sys.executable, *argv], cwd=tree, env=variables, capture_output=True, text=True, check=False
    )
    if lack is not None and done.returncode == 2:
        lack(done.stderr)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def filled_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with a new check in every group, filled in as TODO says."""
    tree = tmp_path_factory.mktemp("new") / "checkout"
    copy(ROOT, tree)
    # Where an editable install would find it by pyproject.toml.
    (tree / "src/npudoctor/checks").symlink_to(tree / "checks")
    for group in GROUPS:
        assert told_here(tree, f"brand-new-{group}", group).returncode == 0
    for path in (*tree.glob("checks/*/brand_new_*.py"), *(tree / FAULTS).glob("*.py")):
        fill_in(path)
    empty = tree / "tests/scenarios/test_empty.py"
    ids = "brand-new-leftovers brand-new-trial "
    empty.write_text(
        empty.read_text(encoding="utf-8").replace('"clock ', f'"{ids}clock ', 1), encoding="utf-8"
    )
    run(tree, "tools/index.py")
    _keep_byte_code(tree)
    return tree


def _keep_byte_code(tree: Path) -> None:
    """As root npudoctor writes none: each start would compile a hundred modules. That of this checkout suits
    the copies, which bear the same times, and compileall makes only what is new."""
    for path in (found for part in ("src", "checks") for found in ROOT.glob(f"{part}/**/__pycache__/*.pyc")):
        place = tree / path.relative_to(ROOT)
        place.parent.mkdir(exist_ok=True)
        shutil.copy2(path, place)
    run(tree, "-m", "compileall", "-q", "src/npudoctor", "checks")


@pytest.mark.slow
def test_filled_in_its_tests_pass_and_it_keeps_the_rules_of_all_checks(filled_in: Path) -> None:
    tests = [
        str(path.relative_to(filled_in)) for path in filled_in.glob("tests/checks/*/test_brand_new_*.py")
    ]
    assert len(tests) == len(GROUPS)
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", ABOUT_NEW)
    out = run(filled_in, "-m", "pytest", *options, *tests, *RULES)
    passed = re.search(r"^(\d+) passed", out, re.MULTILINE)
    assert passed and int(passed[1]) > 20 * len(GROUPS) and "skipped" not in out
    listed = run(filled_in, "-m", "npudoctor", "list")
    assert all(f"brand-new-{group}" in listed for group in GROUPS)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_filled_in_it_can_be_rehearsed(group: str, filled_in: Path, lack: Callable[[str], None]) -> None:
    out = run(
        filled_in, "-m", "npudoctor", "rehearse", f"brand-new-{group}", "--", "--format", "json", lack=lack
    )
    assert f'"brand-new-{group}.wrong"' in out  # that it ended as the fault says is in the status


@pytest.mark.slow
def test_filled_in_it_passes_lint(filled_in: Path) -> None:
    package = filled_in / ".typed" / "npudoctor"  # as `make typed` makes it
    shutil.rmtree(package, ignore_errors=True)  # a copy of this checkout's
    package.mkdir(parents=True)
    parts = (*(filled_in / "src" / "npudoctor").iterdir(), filled_in / "checks")
    for name, path in {path.name: path for path in parts}.items():
        (package / name).symlink_to(path)
    for tool in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy", "--cache-dir", os.devnull]):
        if subprocess.run([sys.executable, "-m", tool[0], "--version"], capture_output=True).returncode:
            pytest.skip(f"{tool[0]} is not installed: it is no dependency of the tests")
        paths = sorted(str(path) for path in filled_in.glob("**/*brand_new_*.py"))
        assert len(paths) == 2 * len(GROUPS)
        run(filled_in, "-m", *tool, *paths)


def test_what_is_left_to_do_fails_until_it_is_done(tree: Path) -> None:
    done = new_check(tree, "brand-new", "device")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:3] == list(FILES)
    start = (
        "import sys, npudoctor.checks.device as device, pytest; device.__path__.append('checks/device');"
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'tests']))"
    )
    argv = [sys.executable, "-c", start]
    tried = subprocess.run(argv, cwd=tree, capture_output=True, text=True, check=False)
    assert "2 failed, 4 passed" in tried.stdout
    assert "TODO: what is true when all is well" in tried.stdout


@pytest.mark.parametrize(
    ("name", "group", "why"),
    [
        ("te-topi", "device", "'te-topi' is taken by another check, a group or a tag"),
        ("small-shm", "device", "'small-shm' is taken by a fault: npudoctor rehearse --list"),
        ("Brand-New", "device", "is not an id"),
        ("brand_new", "device", "is not an id"),
        ("../evil", "device", "is not an id"),
        ("clock", "device", "is taken by another check"),
        ("", "device", "is not an id"),
        ("brand-new", "nope", "no group 'nope': device"),
        ("brand-new", "../device", "no group '../device'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tree: Path, name: str, group: str, why: str) -> None:
    before = (tree / FAULT).read_text()
    # Of one that is refused the start is a real one.
    done = (new_check if group == "nope" else told_here)(tree, name, group)
    assert (done.returncode, done.stdout) == (64, "")
    assert why in done.stderr and done.stderr.count("\n") == 1
    assert not (tree / CHECK).exists() and not (tree / TEST).exists() and (tree / FAULT).read_text() == before


def test_what_is_there_is_never_written_over(tree: Path) -> None:
    (tree / TEST).write_text("mine")
    done = new_check(tree, "brand-new", "device")
    assert done.returncode == 64 and f"{TEST} exists" in done.stderr
    assert (tree / TEST).read_text() == "mine" and not (tree / CHECK).exists()
