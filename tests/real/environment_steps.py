"""How people break an environment, one step each. What a step replaces is another file: bases are shared."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from .environment_bases import Copy


class Step:
    """One change of a copy; its repr says all of it."""

    def apply(self, copy: Copy) -> None:
        """Do it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Uninstall(Step):
    """`pip uninstall`."""

    name: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        copy.pip("uninstall", "-y", self.name)


@dataclass(frozen=True)
class Install(Step):
    """`pip install --no-deps`."""

    requirement: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        copy.pip("install", "--no-deps", self.requirement)


@dataclass(frozen=True)
class Remove(Step):
    """`rm -r` in site-packages."""

    pattern: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        for path in matches(copy, self.pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


@dataclass(frozen=True)
class Cut(Step):
    """A file of which a full disk kept the first part."""

    pattern: str
    keep: float

    def apply(self, copy: Copy) -> None:
        """Do it."""
        for path in matches(copy, self.pattern):
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(content[: int(len(content) * self.keep)])


@dataclass(frozen=True)
class CutCode(Step):
    """The byte code of a module, of which a full disk kept the first part."""

    path: str
    keep: float

    def apply(self, copy: Copy) -> None:
        """Do it."""
        folder, _slash, name = self.path.rpartition("/")
        Cut(f"{folder}/__pycache__/{name[:-3]}.cpython-*.pyc".lstrip("/"), self.keep).apply(copy)


@dataclass(frozen=True)
class Zeros(Step):
    """A file of which a crash kept the size alone."""

    pattern: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        for path in matches(copy, self.pattern):
            size = path.stat().st_size
            path.unlink()
            path.write_bytes(bytes(size))


@dataclass(frozen=True)
class Archive(Step):
    """A package that is moved into a zip file, which a .pth file names."""

    name: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        made = shutil.make_archive(str(copy.job.parent / self.name), "zip", copy.site, self.name)
        shutil.rmtree(copy.site / self.name)
        (copy.site / f"{self.name}.pth").write_text(f"{made}\n", encoding="utf-8")


@dataclass(frozen=True)
class Move(Step):
    """`mv` in site-packages."""

    pattern: str
    to: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        (path,) = matches(copy, self.pattern)
        path.rename(copy.site / self.to)


@dataclass(frozen=True)
class Write(Step):
    """A file with this text below the copy: lib of its Python, or where the job starts."""

    path: str
    text: str = ""
    append: bool = False

    def apply(self, copy: Copy) -> None:
        """Do it."""
        job = self.path.startswith("job/")
        path = copy.job.parent / self.path if job else copy.site / self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text(encoding="utf-8") if self.append else ""
        path.unlink(missing_ok=True)
        path.write_text(before + self.text.replace("{job}", str(copy.job)), encoding="utf-8")


@dataclass(frozen=True)
class Variable(Step):
    """`export`; {job} is where the job starts."""

    name: str
    value: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        copy.variables[self.name] = self.value.format(job=copy.job)


@dataclass(frozen=True)
class Download(Step):
    """`pip install --no-deps --target` into a folder where the job starts, or into site-packages: wheels for
    whatever Python and platform; nothing is run of them."""

    requirement: str
    options: tuple[str, ...] = ()
    to: str = "lib"

    def apply(self, copy: Copy) -> None:
        """Do it."""
        folder = str(copy.job / self.to)
        only = ("--only-binary", ":all:") if self.options else ()
        wanted = ("--no-deps", *only, *self.options, "--target", folder, self.requirement)
        copy.pip("install", "--no-build-isolation", *wanted)


@dataclass(frozen=True)
class Into(Step):
    """What was downloaded takes the place of what is installed: `cp -r` over site-packages."""

    name: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        for path in copy.site.glob(f"{self.name}*"):
            shutil.rmtree(path)
        for path in (copy.job / "lib").iterdir():
            shutil.copytree(path, copy.site / path.name, dirs_exist_ok=True)
        shutil.rmtree(copy.job / "lib")


@dataclass(frozen=True)
class CopyOut(Step):
    """A library of site-packages or of the system, whole or its first part, in a folder of the job."""

    pattern: str
    to: str
    keep: float = 1.0
    machine: int = 0

    def apply(self, copy: Copy) -> None:
        """Do it."""
        path = matches(copy, self.pattern)[0]
        content = bytearray(path.read_bytes())
        if self.machine:
            content[18] = self.machine  # e_machine of its header
        target = copy.job / self.to
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content[: int(len(content) * self.keep)])


@dataclass(frozen=True)
class Limit(Step):
    """`ulimit` of the shell that starts the job and npudoctor; MiB."""

    flag: str
    most: int

    def apply(self, copy: Copy) -> None:
        """Do it."""
        copy.limits = (*copy.limits, (self.flag, self.most))


@dataclass(frozen=True)
class OtherPython(Step):
    """Its packages lie where another release of Python looks: the base was upgraded in place."""

    release: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        lib = copy.site.parent
        lib.rename(lib.parent / f"python{self.release}")


@dataclass(frozen=True)
class BaseGone(Step):
    """The Python that it was made of is removed."""

    def apply(self, copy: Copy) -> None:
        """Do it."""
        for path in (copy.folder / "bin").glob("python*"):
            path.unlink()
        os.symlink("/opt/gone/bin/python3", copy.folder / "bin" / "python3")
        os.symlink("python3", copy.folder / "bin" / "python")


def matches(copy: Copy, pattern: str) -> list[Path]:
    """What site-packages has by this pattern; at least one."""
    found = sorted(copy.site.glob(pattern))
    assert found, f"{pattern} is not in {copy.site}"
    return found
