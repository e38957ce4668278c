"""Whole environments, made by pip once and kept; what is broken are copies of them that share their files."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import mindspore_env
from .mindspore_env import Unavailable, run

PIP_SECONDS = 1200


@dataclass(frozen=True)
class Base:
    """What pip installs into a new environment, with all that it requires. `cheap`: small enough for CI."""

    name: str
    python: str
    requirements: tuple[str, ...]
    cheap: bool = False

    @property
    def folder(self) -> Path:
        """Where it is kept."""
        return mindspore_env.cache() / "bases" / self.name


# Exact: what is said of them was seen with these.
PADDLE_39 = Base("paddle-py39", "3.9", ("paddlepaddle==3.0.0",), cheap=True)
MINDSPORE_NEW = Base("mindspore-py310", "3.10", ("mindspore==2.10.0", "numpy<2"))
# The same as that of the tests of the cache server, so that it is installed once.
MINDSPORE = Base("mindspore-py311", "3.11", (mindspore_env.REQUIREMENT,), cheap=True)
PADDLE = Base("paddle-py312", "3.12", ("paddlepaddle==3.3.1", "setuptools<82"), cheap=True)
# Of PyPI, so with the libraries of CUDA: 5 GB when installed.
TORCH = Base(
    "torch-py312",
    "3.12",
    ("torch==2.5.1", "torchvision==0.20.1", "torchaudio==2.5.1", "numpy<2.3", "setuptools<82"),
)
TENSORFLOW = Base("tensorflow-py313", "3.13", ("tensorflow-cpu==2.21.0",))


def provide(base: Base) -> Path:
    """Its folder; made now if it is not there or was made of something else."""
    if (base.python, *base.requirements) == (mindspore_env.PYTHON_VERSION, mindspore_env.REQUIREMENT):
        return mindspore_env.provide().folder
    (mindspore_env.cache() / "bases").mkdir(parents=True, exist_ok=True)
    with open(f"{base.folder}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs at once make one environment
        stamp = base.folder / "npudoctor-installed.txt"
        if not stamp.exists() or stamp.read_text(encoding="ascii") != repr(base):
            shutil.rmtree(base.folder, ignore_errors=True)
            run("venv failed", mindspore_env.interpreter(base.python), "-m", "venv", base.folder)
            pip = (base.folder / "bin" / "python", "-m", "pip", "install", "--quiet")
            run(f"{base.name} can not be installed", *pip, *base.requirements)
            stamp.write_text(repr(base), encoding="ascii")
    return base.folder


@dataclass
class Copy:
    """A copy of a base that shares its files: what is changed is put in place anew, never written into."""

    folder: Path
    variables: dict[str, str]
    # Where the job starts.
    job: Path
    # What ulimit is told before, in MiB.
    limits: tuple[tuple[str, int], ...] = ()

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def site(self) -> Path:
        """Its site-packages."""
        (site,) = self.folder.glob("lib/python3*/site-packages")
        return site

    def environment(self) -> dict[str, str]:
        """All variables of the job."""
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.job), "LANG": "C.UTF-8", **self.variables}

    def limited(self, *command: str | Path) -> list[str | Path]:
        """A command in a shell with these limits."""
        lines = "".join(f"ulimit {flag} {most * 1024}; " for flag, most in self.limits)
        return ["sh", "-c", f'{lines}exec "$@"', "sh", *command] if lines else list(command)

    def pip(self, *arguments: str) -> None:
        """As a user types it; Unavailable where it fails."""
        run(f"pip {' '.join(arguments)} failed", self.python, "-m", "pip", "--quiet", *arguments)

    def shell(self, line: str) -> bool:
        """Run a line that npudoctor shows, as its reader would; whether it succeeded."""
        # pip's own settings of this machine are kept: they say which index can be reached.
        settings = Path.home() / ".config" / "pip" / "pip.conf"
        own = {"PIP_CONFIG_FILE": str(settings)} if settings.exists() else {}
        variables = {**os.environ, **own, "HOME": str(self.job), **self.variables}
        try:
            done = subprocess.run(
                ["sh", "-ec", line],
                cwd=self.job,
                env=variables,
                input=b"y\n" * 20,  # pip asks before it uninstalls
                capture_output=True,
                timeout=PIP_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def copy(kept: Path, folder: Path) -> Copy:
    """A copy of a base in a folder on the same file system; of no cost, as the files are shared."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run("no copy", "cp", "-al", kept, folder / "env")
    settings = folder / "env" / "pyvenv.cfg"
    content = settings.read_bytes()
    settings.unlink()  # `python -m venv` writes into the file that is there
    settings.write_bytes(content)
    (folder / "job").mkdir()
    return Copy(folder / "env", {}, folder / "job")


__all__ = ["Base", "Copy", "Unavailable", "copy", "provide"]
