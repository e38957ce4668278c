"""npudoctor's own packages, built once for all tests of a run."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
MADE_HERE = (
    ".git", ".venv*", "build", "dist", "share", "site", "*.egg-info", "__pycache__", ".*_cache", "*.mo",
    "table.json", "plain.json",
)  # fmt: skip


# The time that files in packages bear.
MOMENT = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}


class Packages(NamedTuple):
    """Freshly built packages, and the copy of the tree that they were built from; nobody changes it."""

    tree: Path
    sdist: Path
    wheel: Path


@contextmanager
def shared(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """A folder for all processes of a run; the first one locks the others out."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(mode=0o755, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def provide(factory: pytest.TempPathFactory) -> Packages:
    """The sdist, and the wheel that is built from that sdist."""
    with shared(factory, "own-packages") as folder:
        tree, out = folder / "tree", folder / "out"
        if not any(out.glob("*.whl")):
            shutil.rmtree(tree, ignore_errors=True)
            copy(ROOT, tree)
            build(tree, out)
    (sdist,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    return Packages(tree, sdist, wheel)


def copy(tree: Path, place: Path) -> None:
    """What is in git of a tree, and what was not committed yet."""
    shutil.copytree(tree, place, ignore=shutil.ignore_patterns(*MADE_HERE))


def build(tree: Path, out: Path, *options: str) -> None:
    """Both packages, or what the options say."""
    # Isolated only where it must be, which takes longer: setuptools wants a newer packaging than we do.
    isolation = [] if Version(version("packaging")) < Version("24.2") else ["--no-isolation"]
    command = [sys.executable, "-m", "build", *isolation, *options, "--outdir", str(out), str(tree)]
    done = subprocess.run(
        command, env=MOMENT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
