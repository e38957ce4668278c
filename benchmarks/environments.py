"""Throw-away virtual environments of one real interpreter, filled by a current pip as a user would."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.npu_machine import NpuMachine
from benchmarks.packages import fill
from benchmarks.promise import CHECKOUT, CannotMeasureError, Promise

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 900
"""Seconds for one step of a preparation; an index may be slow."""

ASK = """
import importlib.metadata as m, json, platform, sys
print(json.dumps({"python": platform.python_implementation() + " " + platform.python_version(),
    "base": sys.base_prefix, "packages": {d.metadata["Name"].lower(): d.version for d in m.distributions()},
    "direct": {d.metadata["Name"].lower(): d.read_text("direct_url.json") for d in m.distributions()}}))
"""


@dataclass(frozen=True)
class Environment:
    """A finished virtual environment, and what a reader must know to compare its figures."""

    folder: Path
    python: str
    packages: dict[str, str]
    mode: str

    def program(self, name: str) -> str:
        """The absolute path of a program; refused where pip, and not the program, starts a shell first."""
        path = self.folder / "bin" / name
        with path.open("rb") as file:
            if file.read(20).startswith(b"#!/bin/sh\n'''exec'"):
                raise CannotMeasureError(f"{path} goes through a shell: XDG_CACHE_HOME is long or has spaces")
        return str(path)


def interpreter() -> Path:
    """The real file behind the running interpreter: no shim, no virtual environment."""
    folder = Path(sys.base_prefix, "bin")
    for name in (f"python{sys.version_info[0]}.{sys.version_info[1]}", "python3", "python"):
        if (folder / name).is_file():
            return (folder / name).resolve()
    raise CannotMeasureError(f"no interpreter in {folder}")


def cache() -> Path:
    """Where environments are made; throw-away as a whole."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "npudoctor-bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def of_checkout(scratch: Path) -> Environment:
    """The wheel of this checkout, built from a copy: old build folders do not count, new ones do not stay."""
    source, wheels, folder = scratch / "source", scratch / "wheels", scratch / "venv"
    shutil.copytree(ROOT, source, symlinks=True, ignore=_unbuilt)
    _create(folder, "pip")
    _pip(folder, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(source))
    _pip(folder, "install", *(str(wheel) for wheel in wheels.glob("*.whl")))
    return _ask(folder, "npudoctor")


def of_job(scratch: Path) -> Path:
    """Where the `python3` on PATH lies: an empty environment, without the hooks of this machine's Python."""
    _run("venv", [str(interpreter()), "-I", "-m", "venv", "--without-pip", str(scratch / "job")])
    return scratch / "job" / "bin"


def of_packages(scratch: Path) -> Path:
    """The same environment, full of packages."""
    folder = scratch / "full"
    _run("venv", [str(interpreter()), "-I", "-m", "venv", "--without-pip", str(folder)])
    fill(next(folder.glob("lib/python3*/site-packages")))
    return folder / "bin"


def of_requirement(requirement: str, pip: str) -> Environment:
    """A pinned package, by the same version of pip; kept in the cache, for it never changes."""
    python = interpreter()
    key = hashlib.sha256(f"{python} {sys.version} {requirement} {pip}".encode()).hexdigest()[:12]
    name = requirement.partition("==")[0]
    folder, whole = cache() / f"{name}-{key}", cache() / f"{name}-{key}.whole"
    with _locked(cache() / "lock"):
        if not whole.exists():
            shutil.rmtree(folder, ignore_errors=True)
            _create(folder, f"pip=={pip}")
            _pip(folder, "install", requirement)
            whole.touch()
        return _ask(folder, name)


def _unbuilt(folder: str, names: list[str]) -> list[str]:
    """What is no part of the source: hidden at the top, compiled, or left there by a build."""
    top = {"build", "dist", "npudoctor.egg-info"} if Path(folder) == ROOT else set()
    hidden = [n for n in names if n.startswith(".")] if Path(folder) == ROOT else []
    return [n for n in names if n in top or n == "__pycache__" or n in hidden]


def _create(folder: Path, pip: str) -> None:
    _run("venv", [str(interpreter()), "-I", "-m", "venv", str(folder)])
    _pip(folder, "install", "--upgrade", pip)


def _pip(folder: Path, *arguments: str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
    told = f"pip {arguments[0]} {arguments[-1]}"
    _run(told, [str(folder / "bin" / "python"), "-I", "-m", "pip", *quiet, *arguments])


def _ask(folder: Path, name: str) -> Environment:
    """Look at what was really installed; a link to a source tree is not what a user has."""
    seen = json.loads(_run("asking for versions", [str(folder / "bin" / "python"), "-I", "-c", ASK]))
    if Path(seen["base"]).resolve() != Path(sys.base_prefix).resolve():
        raise CannotMeasureError(f"{folder} belongs to another Python: {seen['base']}")
    direct = json.loads(seen["direct"].get(name) or "{}")
    if name not in seen["packages"] or direct.get("dir_info", {}).get("editable"):
        raise CannotMeasureError(f"{name} is not installed, or as a link, in {folder}")
    mode = "wheel of this checkout, not editable" if direct else "from the package index, not editable"
    return Environment(folder, seen["python"], seen["packages"], mode)


def _run(what: str, argv: list[str]) -> str:
    """Prepare something, outside every measurement; the caller's Python variables must not reach it."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON") and k != "VIRTUAL_ENV"}
    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run(
            argv, env=inherited, cwd="/", stdin=nothing, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired as error:
        raise CannotMeasureError(f"{what} did not end within {PATIENCE} s") from error
    if done.returncode != 0:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()] or ["no message"]
        told = next((line for line in said if "error" in line.lower()), said[-1])
        raise CannotMeasureError(f"{what}: status {done.returncode}: {told.strip()}")
    return done.stdout


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Workshop:
    """Everything that is made for one invocation, in one folder that is thrown away."""

    def __init__(self, scratch: Path, *, full: bool) -> None:
        """`full`: one full of packages is wanted too; its 44,000 files are written while pip works."""
        self.scratch = scratch
        self._npus: NpuMachine | None = None
        with ThreadPoolExecutor() as beside:
            filled = beside.submit(of_packages, scratch) if full else None
            self.job = of_job(scratch)
            self.known = {CHECKOUT: of_checkout(scratch)}
            self._full = filled.result() if filled else self.job

    def environment(self, install: str) -> Environment:
        """The environment that a command asks for, made once, with the pip of the checkout's."""
        if install not in self.known:
            self.known[install] = of_requirement(install, self.known[CHECKOUT].packages["pip"])
        return self.known[install]

    def job_of(self, promise: Promise) -> Path:
        """Where the job's interpreter lies."""
        return self._full if promise.in_packages else self.job

    def npu_machine(self) -> NpuMachine:
        """The machine of stand-ins, set up once."""
        if self._npus is None:
            self._npus = NpuMachine(self.scratch)
        return self._npus
