"""What befalls environments from outside: kills, full disks, slim images, other owners; one step each."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .environment_bases import Copy, Unavailable, shared_folder
from .environment_steps import Step, matches

ORDINARY = 65534  # nobody: on every machine, and owner of nothing

# pip itself, which ends itself by a signal that nothing can catch, at a call that this counts: what lies
# there then is what a real kill leaves, and the same each time.
_KILLED_PIP = """
import os, runpy, signal, sys
from pip._internal.operations.install import wheel
from pip._internal.req import req_uninstall
phase, left = sys.argv[1], int(sys.argv[2])
sys.argv[:3] = ["pip"]
calls = {
    "moved": (req_uninstall.StashedUninstallPathSet, "stash"),
    "written": (wheel.ZipBackedFile, "save"),
    "deleted": (os, "unlink"),
}
def count(owner, name):
    real = getattr(owner, name)
    def counted(*arguments, **options):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return real(*arguments, **options)
    setattr(owner, name, counted)
if phase == "deleted":
    real_commit = req_uninstall.StashedUninstallPathSet.commit
    def commit(self):
        count(*calls[phase])
        real_commit(self)
    req_uninstall.StashedUninstallPathSet.commit = commit
else:
    count(*calls[phase])
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True)
class Killed(Step):
    """pip, killed after so many calls of a phase: `moved` away by it, `written`, or `deleted` at its end."""

    line: str
    phase: str
    after: int

    def apply(self, copy: Copy) -> None:
        """Do it."""
        program = ("-c", _KILLED_PIP, self.phase, str(self.after))
        command: list[str | Path] = [copy.python, *program, *shlex.split(self.line)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != -signal.SIGKILL:
            raise Unavailable(f"pip {self.line} ended by itself: {done.stdout[-300:]} {done.stderr[-300:]}")


@dataclass(frozen=True)
class Torn(Step):
    """Folders of site-packages from an archive whose download broke off: `head -c | tar -x`."""

    names: str
    keep: float

    def apply(self, copy: Copy) -> None:
        """Do it."""
        names = [path.name for name in self.names.split() for path in matches(copy, name)]
        archive = copy.job.parent / "torn.tar"
        # Sorted: in which order a disk gives the names differs from machine to machine.
        # Its status is no sign: files that copies share change their count of links as it reads them.
        tar: list[str | Path] = ["tar", "-C", copy.site]
        made = subprocess.run([*tar, "--sort=name", "-cf", archive, *names], check=False, capture_output=True)
        assert made.returncode < 2, made.stderr
        for name in names:
            shutil.rmtree(copy.site / name)
        os.truncate(archive, int(archive.stat().st_size * self.keep))
        subprocess.run([*tar, "-xf", archive], check=False, stderr=subprocess.DEVNULL)
        archive.unlink()


@dataclass(frozen=True)
class FullDisk(Step):
    """`cp -r` of a folder onto a disk that becomes full: one file is cut, and all after it are empty."""

    name: str
    keep: float

    def apply(self, copy: Copy) -> None:
        """Do it."""
        files = sorted(path for path in (copy.site / self.name).rglob("*") if path.is_file())
        free = int(sum(path.stat().st_size for path in files) * self.keep)
        for path in files:
            content = path.read_bytes()
            if len(content) > free:
                path.unlink()
                path.write_bytes(content[:free])
            free = max(0, free - len(content))


@dataclass(frozen=True)
class Find(Step):
    """`find` in site-packages, as images are made smaller; its -delete never touches what the base shares."""

    line: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        command = ["find", ".", *shlex.split(self.line)]
        subprocess.run(command, cwd=copy.site, check=False, capture_output=True)


@dataclass(frozen=True)
class Strip(Step):
    """`strip` of compiled files, as images are made smaller."""

    pattern: str
    options: str = "--strip-unneeded"

    def apply(self, copy: Copy) -> None:
        """Do it."""
        if not shutil.which("strip"):
            raise Unavailable("no strip")
        for path in matches(copy, self.pattern):
            made = path.with_name("stripped")
            subprocess.run(["strip", self.options, "-o", made, path], check=True, capture_output=True)
            made.replace(path)


@dataclass(frozen=True)
class ByOrdinaryUser(Step):
    """The environment is root's, in a folder that all may read, and who asks is somebody else.

    The first step of a case. Its Python is the system's, as no other may be started by everybody.
    """

    def apply(self, copy: Copy) -> None:
        """Do it."""
        python = Path("/usr/bin") / copy.site.parent.name
        if os.geteuid() != 0:
            raise Unavailable("only root can ask as another user")
        if not python.exists():
            raise Unavailable(f"no {python}, which all may start")
        settings = copy.folder / "pyvenv.cfg"
        settings.write_text(f"home = /usr/bin\nversion = {copy.site.parent.name[6:]}\n", encoding="ascii")
        for path in (copy.folder / "bin").glob("python*"):
            if os.path.isabs(os.readlink(path)):
                path.unlink()
                path.symlink_to(python)
        folder = shared_folder()
        shutil.rmtree(folder, ignore_errors=True)
        try:
            copy.folder.parent.rename(folder)
        except OSError as error:  # another file system: a copy of gigabytes is not made
            raise Unavailable(f"not in {folder}: {error}") from error
        folder.chmod(0o755)
        copy.folder, copy.job, copy.user = folder / "env", folder / "job", ORDINARY
        os.chown(copy.job, ORDINARY, ORDINARY)


@dataclass(frozen=True)
class Mode(Step):
    """`chmod` of what matches in site-packages; with `below` of all in it, as umask 077 makes it."""

    pattern: str
    mode: int
    below: bool = False

    def apply(self, copy: Copy) -> None:
        """Do it."""
        for path in matches(copy, self.pattern):
            for one in (path, *(path.rglob("*") if self.below else ())):
                if one.is_dir():
                    one.chmod(self.mode | (self.mode & 0o444) >> 2)
                else:
                    content = one.read_bytes()
                    one.unlink()  # the mode is the file's, and the base has the same file
                    one.write_bytes(content)
                    one.chmod(self.mode)


@dataclass(frozen=True)
class OwnPython(Step):
    """The environment's Python is one of its own, of which this was left out or removed: a pattern in lib."""

    without: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        real = (copy.folder / "bin" / "python").resolve()
        place = copy.job.parent / "python"
        try:
            subprocess.run(["cp", "-al", real.parents[1], place], check=True, capture_output=True)
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"no copy of {real.parents[1]}: {error.stderr[-200:]!r}") from error
        removed = list((place / "lib" / copy.site.parent.name).glob(self.without))
        assert removed, self.without
        for path in removed:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        settings = copy.folder / "pyvenv.cfg"
        settings.write_text(f"home = {place}/bin\nversion = {copy.site.parent.name[6:]}\n", encoding="utf-8")
        for path in (copy.folder / "bin").glob("python*"):
            if os.path.isabs(os.readlink(path)):
                path.unlink()
                path.symlink_to(place / "bin" / real.name)


@dataclass(frozen=True)
class Linked(Step):
    """`uv pip install --link-mode symlink`: each file is a link into uv's cache; and no pip, as uv has none.

    `gone`: folders that `uv cache prune` took away.
    """

    gone: str = ""

    def apply(self, copy: Copy) -> None:
        """Do it."""
        cache = copy.job.parent / "cache" / "archive-v0"
        for name in ("pip", *(path.name for path in copy.site.glob("pip-*.dist-info"))):
            shutil.rmtree(copy.site / name)
        for folder in [path for path in copy.site.iterdir() if path.is_dir()]:
            for path in [one for one in folder.rglob("*") if one.is_file() and one.suffix != ".pyc"]:
                kept = cache / path.relative_to(copy.site)
                kept.parent.mkdir(parents=True, exist_ok=True)
                path.rename(kept)
                path.symlink_to(kept)
        for name in self.gone.split():
            shutil.rmtree(cache / name)


@dataclass(frozen=True)
class Elsewhere(Step):
    """Packages that lie in a folder of PYTHONPATH instead of site-packages; `also`: they are in both."""

    names: str
    also: bool = False

    def apply(self, copy: Copy) -> None:
        """Do it."""
        target = copy.job / "lib"
        target.mkdir(exist_ok=True)
        for path in [path for name in self.names.split() for path in matches(copy, name)]:
            if self.also:
                subprocess.run(["cp", "-al", path, target / path.name], check=True)
            else:
                path.rename(target / path.name)
        copy.variables["PYTHONPATH"] = str(target)


@dataclass(frozen=True)
class Link(Step):
    """What matches in site-packages is a link to elsewhere, where nothing is any more."""

    pattern: str
    target: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        for path in matches(copy, self.pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            path.symlink_to(f"{self.target}/{path.name}")


@dataclass(frozen=True)
class SecondVersion(Step):
    """The metadata of another version beside that of what is installed, as copying over it leaves."""

    name: str
    version: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        (metadata,) = matches(copy, f"{self.name}-[0-9]*.dist-info")
        other = copy.site / f"{self.name}-{self.version}.dist-info"
        shutil.copytree(metadata, other)
        text = (metadata / "METADATA").read_text(encoding="utf-8")
        (other / "METADATA").unlink()
        changed = re.sub(r"(?m)^Version: .*$", f"Version: {self.version}", text, count=1)
        (other / "METADATA").write_text(changed, encoding="utf-8")


@dataclass(frozen=True)
class Compiled(Step):
    """All code of a package as byte code alone: `compileall -b`, then the sources removed."""

    name: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        folder = copy.site / self.name
        command: list[str | Path] = [copy.python, "-m", "compileall", "-q", "-b", folder]
        subprocess.run(command, check=False, capture_output=True)
        for path in folder.rglob("*.py"):
            path.unlink()
        shutil.rmtree(folder / "__pycache__")


@dataclass(frozen=True)
class Stale(Step):
    """Byte code of other contents than its source, of the source's size and time: what a restored backup or a
    build with fixed times leaves. `text` takes the place of the source before it is compiled."""

    path: str
    text: str

    def apply(self, copy: Copy) -> None:
        """Do it."""
        source = copy.site / self.path
        content, times = source.read_bytes(), source.stat()
        source.unlink()
        source.write_text(self.text.ljust(len(content), "#"), encoding="utf-8")
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
        subprocess.run([copy.python, "-m", "compileall", "-q", "-f", source], check=True)
        source.write_bytes(content)
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
