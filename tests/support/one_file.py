"""The one file npudoctor.pyz for tests: what `make package` built last, unless the sources are newer."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "dist/npudoctor.pyz"


def provide(factory: pytest.TempPathFactory) -> Path:
    """Its path; built where that must be."""
    folders = ("src", "checks", "tools")
    newest = max(path.stat().st_mtime for name in folders for path in (ROOT / name).rglob("*.py"))
    if BUILT.exists() and BUILT.stat().st_mtime > newest:
        return BUILT
    wheel = build_wheel(factory)
    packed = factory.mktemp("one-file") / "npudoctor.pyz"
    pack = [sys.executable, str(ROOT / "tools/one_file.py"), str(wheel), str(packed)]
    done = subprocess.run(pack, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return packed


def build_wheel(factory: pytest.TempPathFactory) -> Path:
    """npudoctor's own wheel, built once for all processes of a run: the first one locks the others out."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "own-wheel"
    folder.mkdir(mode=0o755, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not any(folder.glob("*.whl")):
            _build(folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _build(folder: Path) -> None:
    isolation = [] if Version(version("packaging")) < Version("24.2") else ["--no-isolation"]
    build = [sys.executable, "-m", "build", *isolation, "--wheel", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
