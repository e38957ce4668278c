"""The parts of real wheels that checks of NCCL read, kept outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from .mindspore_env import Unavailable

SECONDS = 1800
NCCL = "nvidia-nccl-cu12==2.27.5"  # 320 MB
MINDSPORE = "mindspore-gpu==1.10.0"  # 345 MB, for Python 3.9
KEPT = ("libnccl.so.2", "libgpu_collective.so", "libnvidia_collective.so")


def provide(requirement: str, python: str = "") -> Path:
    """A folder as site-packages with the metadata, the extension module and what is kept of a wheel."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "npudoctor-tests"
    folder = cache / "wheels" / "nccl" / requirement.replace("==", "-")
    if not (folder / "whole").exists():
        folder.mkdir(parents=True, exist_ok=True)
        wheel = _download(requirement, folder, python)
        with zipfile.ZipFile(wheel) as content:
            for name in content.namelist():
                if _is_kept(name):
                    content.extract(name, folder)
        wheel.unlink()
        (folder / "whole").touch()
    return folder


def _is_kept(name: str) -> bool:
    last = name.rpartition("/")[2]
    return ".dist-info/" in name or last in KEPT or last.startswith(("_c_expression.", "nccl.h"))


def _download(requirement: str, folder: Path, python: str) -> Path:
    foreign: Sequence[str] = ()
    if python:
        platforms = ("manylinux1_x86_64", "manylinux2014_x86_64")
        foreign = [f"--python-version={python}", *(f"--platform={name}" for name in platforms)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    command += ["--only-binary=:all:", f"--dest={folder}", *foreign, requirement]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{requirement}: {error}") from error
    (wheel,) = folder.glob("*.whl")
    return wheel
