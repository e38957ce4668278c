"""What jobs run with, made once and kept: PyTorch, MindSpore, and npudoctor as pip installs it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from .stage import HERE, Unavailable

ROOT = HERE.parents[1]
# The machine's own: every user may read it.
PYTHON = "/usr/bin/python3"
# Wheels for CPUs first, as they are small; else what the index has.
WANTED = {
    "torch": (("torch==2.13.0+cpu", "numpy"), ("torch", "numpy")),
    "mindspore": (("mindspore==2.7.0",),),
}
INSTALL_SECONDS = 3600


def cache() -> Path:
    """Where they are kept: every user must be able to read it."""
    place = os.environ.get("STARTS_CACHE")
    if place:
        return Path(place).resolve()
    return Path("/var/tmp/npudoctor-starts") if os.geteuid() == 0 else Path.home() / ".cache" / "starts"


def provide(name: str) -> Path:
    """The cache with one environment, and the programs that run inside machines as they are now."""
    kept = cache()
    kept.mkdir(parents=True, exist_ok=True)
    kept.chmod(0o755)
    with open(kept / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.copytree(HERE / "jobs", kept / "jobs", dirs_exist_ok=True)
        shutil.copy(HERE / "refuse.py", kept / "refuse.py")
        if name and not (kept / name / ".whole").exists():
            _make(kept / name, WANTED[name])
        if not (kept / "python" / ".whole").exists():
            _copy_python(kept / "python")
    return kept


def provide_doctor() -> None:
    """npudoctor of this checkout, as pip installs it, on the PATH of all jobs."""
    kept = cache()
    with open(kept / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = kept / "npudoctor"
        if not (folder / "bin" / "python").exists():
            _run(PYTHON, "-m", "venv", folder)
        _run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--upgrade", ROOT)
        (kept / "bin").mkdir(exist_ok=True)
        link = kept / "bin" / "npudoctor"
        link.unlink(missing_ok=True)
        link.symlink_to(folder / "bin" / "npudoctor")


def _make(folder: Path, choices: tuple[tuple[str, ...], ...]) -> None:
    """A virtual environment; the last choice must be there."""
    shutil.rmtree(folder, ignore_errors=True)
    _run(PYTHON, "-m", "venv", folder)
    for number, requirements in enumerate(choices, 1):
        try:
            _run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", *requirements)
            break
        except Unavailable:
            if number == len(choices):
                raise
    (folder / ".whole").touch()


def _copy_python(folder: Path) -> None:
    """A Python of its own, from which machines may take modules away."""
    shutil.rmtree(folder, ignore_errors=True)
    library = Path(_run(PYTHON, "-I", "-c", "import os; print(os.path.dirname(os.__file__))").strip())
    ignored = shutil.ignore_patterns(
        "__pycache__", "test", "dist-packages", "site-packages", "config-*", "lib2to3"
    )
    shutil.copytree(library, folder / "lib" / library.name, ignore=ignored)
    (folder / "bin").mkdir()
    shutil.copy(os.path.realpath(PYTHON), folder / "bin" / "python3")
    _run(folder / "bin" / "python3", "-m", "compileall", "-q", folder / "lib")
    (folder / ".whole").touch()


def _run(*command: str | Path) -> str:
    """The output of a command that must succeed."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines() or ["no words"]
        raise Unavailable(f"{command[0]}: {words[-1]}")
    return done.stdout
