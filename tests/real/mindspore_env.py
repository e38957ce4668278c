"""A virtual environment with the real MindSpore, kept outside the checkout so that a second run is fast."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON_VERSION = "3.11"
# One exact wheel: the facts that the product rests on were seen with it. Its metadata brings numpy < 2,
# scipy and whatever else the dataset client imports. It is about 750 MB, and 2.6 GB when installed.
REQUIREMENT = "mindspore==2.7.0"
DOWNLOAD_SECONDS = 3600


class Unavailable(Exception):
    """The real MindSpore can not be had here; says why."""


@dataclass(frozen=True)
class MindSpore:
    """An installed MindSpore."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def dataset_cache(self) -> Path:
        """The wheel's console script that starts, stops and asks cache servers."""
        return self.folder / "bin" / "dataset-cache"


def provide() -> MindSpore:
    """The environment, made now if it is not there, not whole, or of another version."""
    folder = cache() / REQUIREMENT.replace("==", "-")
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs at once make one environment
        if not usable(folder):
            build(folder)
    return MindSpore(folder)


def cache() -> Path:
    """What is kept from one run of tests to the next."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "npudoctor-tests"


@once  # it starts every Python that there is: 1.7 s of processor time
def interpreter(version: str) -> str:
    """The machine's own Python of this version, such as 3.11."""
    found = run(f"no Python {version}", sys.executable, ROOT / "tools" / "pythons.py", version)
    return found.strip()


def stamp(folder: Path) -> Path:
    """Written last, so that an interrupted installation is never taken for a whole one."""
    return folder / "npudoctor-installed.txt"


def usable(folder: Path) -> bool:
    """Was it made for this requirement, and does its interpreter still start?"""
    try:
        if stamp(folder).read_text(encoding="ascii") != REQUIREMENT:
            return False
        subprocess.run([MindSpore(folder).python, "-c", "pass"], check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def build(folder: Path) -> None:
    """Make it anew. pip keeps the wheel in its own cache: a new environment needs no second download."""
    shutil.rmtree(folder, ignore_errors=True)
    python = MindSpore(folder).python
    run("venv failed", interpreter(PYTHON_VERSION), "-m", "venv", folder)
    run(f"{REQUIREMENT} can not be installed", python, "-m", "pip", "install", "--quiet", REQUIREMENT)
    run(f"{REQUIREMENT} can not be imported", python, "-c", "import mindspore.dataset")
    stamp(folder).write_text(REQUIREMENT, encoding="ascii")


def run(failing: str, *command: str | Path) -> str:
    """The output of a command; `failing` and its last words where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{failing}: {error}") from error
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines() or ["no words"]
        raise Unavailable(f"{failing}: {words[-1]}")
    return done.stdout
