"""The one file npudoctor.pyz for tests: what `make package` built last, unless the sources are newer."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from packaging.version import Version

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "dist/npudoctor.pyz"


def provide(folder: Path) -> Path:
    """Its path; built below this folder where that must be."""
    folders = ("src", "checks", "tools")
    newest = max(path.stat().st_mtime for name in folders for path in (ROOT / name).rglob("*.py"))
    if BUILT.exists() and BUILT.stat().st_mtime > newest:
        return BUILT
    wheel = build_wheel(folder)
    pack = [sys.executable, str(ROOT / "tools/one_file.py"), str(wheel), str(folder / "npudoctor.pyz")]
    done = subprocess.run(pack, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "npudoctor.pyz"


def build_wheel(folder: Path) -> Path:
    """npudoctor's own wheel, built into this folder."""
    isolation = [] if Version(version("packaging")) < Version("24.2") else ["--no-isolation"]
    build = [sys.executable, "-m", "build", *isolation, "--wheel", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel
