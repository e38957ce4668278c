"""Changes after which the usual line of pip does not heal: of pip, links, folders, layers, machines."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from . import mindspore_env
from .environment_bases import Copy
from .environment_steps import Step, matches
from .mindspore_env import run

GONE = "/opt/pruned/uv/archive-v0"


@dataclass(frozen=True)
class Dangle(Step):
    """What uv links into its cache (`--link-mode symlink`), after the cache was removed."""

    pattern: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        for top in matches(copy, self.pattern):
            for path in [top] if top.is_file() else [*top.rglob("*")]:
                if path.is_file() and "__pycache__" not in path.parts:
                    path.unlink()
                    path.symlink_to(f"{GONE}/{path.relative_to(copy.site)}")


@dataclass(frozen=True)
class IntoFolder(Step):
    """A file in whose place there is a folder, as a container makes it for a mount without a source."""

    pattern: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        for path in matches(copy, self.pattern):
            path.unlink()
            path.mkdir()


@dataclass(frozen=True)
class Machine(Step):
    """A library of another machine: e_machine of its header."""

    pattern: str
    number: int = 183

    def apply(self, copy: Copy) -> None:
        """Do it."""
        for path in matches(copy, self.pattern):
            content = bytearray(path.read_bytes())
            content[18] = self.number
            path.unlink()
            path.write_bytes(content)


@dataclass(frozen=True)
class Uv(Step):
    """uv on the PATH of the job."""

    def apply(self, copy: Copy) -> None:
        """Do it."""
        folder = copy.job.parent / "tools"
        folder.mkdir(exist_ok=True)
        (folder / "uv").symlink_to(provide_uv())
        copy.variables["PATH"] = f"{folder}:/usr/bin:/bin"


def provide_uv() -> Path:
    """uv, installed once beside the bases."""
    folder = mindspore_env.cache() / "bases" / "uv"
    if not (folder / "bin" / "uv").exists():
        run("venv failed", mindspore_env.interpreter("3.12"), "-m", "venv", folder)
        run("uv cannot be installed", folder / "bin" / "python", "-m", "pip", "install", "--quiet", "uv")
    return folder / "bin" / "uv"


@dataclass(frozen=True)
class NoEnsurepip(Step):
    """Its Python has no ensurepip, as Debian's without python3-venv."""

    def apply(self, copy: Copy) -> None:
        """Do it."""
        real = (copy.folder / "bin" / "python").resolve()
        own = copy.job.parent / "python"
        run("no copy", "cp", "-al", real.parents[1], own)
        (library,) = own.glob("lib/python3.*[0-9]")
        shutil.rmtree(library / "ensurepip")
        for name in ("python", "python3", library.name):
            path = copy.folder / "bin" / name
            path.unlink()
            path.symlink_to(own / "bin" / library.name)
        settings = copy.folder / "pyvenv.cfg"
        text = settings.read_text(encoding="utf-8").replace(str(real.parent), str(own / "bin"))
        settings.unlink()
        settings.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class MoveOut(Step):
    """`mv` of site-packages into a folder of the job, such as one that PYTHONPATH names."""

    pattern: str
    to: str = "lib"

    def apply(self, copy: Copy) -> None:
        """Do it."""
        (copy.job / self.to).mkdir(parents=True, exist_ok=True)
        for path in matches(copy, self.pattern):
            path.rename(copy.job / self.to / path.name)


@dataclass(frozen=True)
class Merge(Step):
    """`cp -r` of what was downloaded over what is installed; nothing is removed before."""

    def apply(self, copy: Copy) -> None:
        """Do it."""
        for path in (copy.job / "lib").rglob("*"):
            target = copy.site / path.relative_to(copy.job / "lib")
            if path.is_dir():
                target.mkdir(exist_ok=True)
            else:
                target.unlink(missing_ok=True)
                shutil.copy2(path, target)
        shutil.rmtree(copy.job / "lib")


@dataclass(frozen=True)
class UpperLayer(Step):
    """An environment above it, which sees its packages by a .pth file."""

    def apply(self, copy: Copy) -> None:
        """Do it."""
        upper, lower = copy.job.parent / "upper", copy.site
        run("venv failed", copy.python, "-m", "venv", upper)
        copy.folder = upper
        (copy.site / "lower.pth").write_text(f"{lower}\n", encoding="utf-8")


@dataclass(frozen=True)
class Managed(Step):
    """No virtual environment any more but a system's own Python with this content (PEP 668)."""

    def apply(self, copy: Copy) -> None:
        """Do it."""
        real = (copy.folder / "bin" / "python").resolve()
        own = copy.job.parent / "system"
        run("no copy", "cp", "-al", real.parents[1], own)
        (library,) = own.glob("lib/python3.*[0-9]")
        shutil.rmtree(library / "site-packages")
        copy.site.rename(library / "site-packages")
        (library / "EXTERNALLY-MANAGED").write_text("[externally-managed]\nError=no\n", encoding="ascii")
        shutil.rmtree(copy.folder)
        if not (own / "bin" / "python").exists():
            os.symlink(library.name, own / "bin" / "python")
        copy.folder = own
