"""Whole environments, made by pip once and kept; what is broken are copies of them that share their files."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

# What a trainer on one node has, from PyTorch for the CPU up. Every pin: whether a wrong version of one of
# them breaks the others hangs on all the others.
_TRAINERS = (
    "accelerate==1.15.0 aiohappyeyeballs==2.7.1 aiohttp==3.14.5 aiosignal==1.4.0 "
    "annotated-doc==0.0.7 annotated-types==0.8.0 anyio==4.16.0 attrs==26.1.0 "
    "certifi==2026.10.19.post1 charset-normalizer==3.5.3 click==8.5.1 cloudpickle==3.1.3 "
    "datasets==5.2.0 diffusers==0.42.1 dill==0.4.1 filelock==4.3.1 frozenlist==1.8.0 "
    "fsspec==2026.9.0 h11==0.16.0 hf-xet==1.8.0 httpcore2==2.16.2 httpx2==2.16.2 "
    "huggingface_hub==2.4.0 idna==3.20 importlib_metadata==10.2.0 Jinja2==3.1.6 joblib==1.6.0 "
    "lazy-importer==0.1.0 lightning==2.6.6 lightning-utilities==0.15.3 markdown-it-py==4.3.0 "
    "MarkupSafe==3.0.4 mdurl==0.1.2 mpmath==1.3.0 multidict==7.2.1 multiprocess==0.70.19 "
    "narwhals==2.29.0 networkx==3.6.1 numpy==2.4.6 packaging==26.4 pandas==3.1.1 peft==0.21.2 "
    "pillow==13.0.0 propcache==0.5.4 psutil==7.2.2 pyarrow==26.0.1 pydantic==2.14.4 "
    "pydantic_core==2.50.5 Pygments==2.21.0 python-dateutil==4.0.0 pytorch-lightning==2.6.6 "
    "PyYAML==6.0.4 regex==2026.11.19 requests==2.34.2 rich==15.0.0 safetensors==0.8.0 "
    "scikit-learn==1.9.1 scipy==1.17.1 sentence-transformers==6.2.0 shellingham==1.5.4 sympy==1.14.0 "
    "threadpoolctl==3.8.0 tokenizers==0.23.3 torch==2.13.0+cpu torchmetrics==1.9.0 tqdm==4.70.1 "
    "transformers==5.24.0 trl==1.16.0 truststore==0.10.5 typer==0.29.2 typing-inspection==0.4.5 "
    "typing_extensions==4.16.0 tzdata==2026.6 urllib3==2.8.0 xxhash==4.1.0 yarl==1.25.1 zipp==4.1.2"
)
TRAINERS = Base("trainers-py311", "3.11", tuple(_TRAINERS.split()))


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
    # Who starts the job and asks; 0 is whoever runs the tests.
    user: int = 0

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

    def identity(self) -> dict[str, Any]:
        """The user, as subprocess wants it."""
        return {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}

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


def shared_folder() -> Path:
    """Where an ordinary user can read the copy of this process: caches are below a home that is private."""
    return Path(f"/var/tmp/npudoctor-environment-{os.getpid()}")


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


__all__ = ["Base", "Copy", "Unavailable", "copy", "provide", "shared_folder"]
