"""A node of the test's own, whose Slurm jobs are over: its pids, its mounts and its control groups.

The test's child is the first process of a pid namespace, so that nothing of the machine can be signalled.
What npudoctor takes for the machine's own namespaces are those: this is the one thing that is told to it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar

from npudoctor.checking.check import Check
from npudoctor.checks.leftovers.stale_processes import stale_processes
from npudoctor.fixing.steps.steps import SignalProcess
from npudoctor.host import Host, Options
from npudoctor.host.process.pidfds import Pidfds
from npudoctor.host.system import System
from npudoctor.host.users.identity import current_identity
from npudoctor.proof import stale
from npudoctor.testing import Asked, FakeClock, ask

from . import ipc
from .others import forked
from .room import open_place

T = TypeVar("T")
GROUPS = "system.slice/slurmstepd.scope"


ROOT = Path(__file__).parents[2]
CLI = """
import sys, time
from tests.support.jobs import believe

believe()
from npudoctor.host.clock import Clock
Clock.now = lambda self: time.time() + 3600
from npudoctor.__main__ import main
sys.exit(main())
"""


SLURM = "/usr/local/sbin"  # where programs are looked for first
SCONTROL = f"""#!/bin/sh
cat {SLURM}/job_"$3" 2>/dev/null && exit
echo "slurm_load_jobs error: Invalid job id specified" >&2
exit 1
"""


class NoGroups(Exception):
    """No control group can be made here."""


def believe() -> None:
    """Take the namespaces that we are in for the machine's own, and the machine for no container."""
    stale.FIRST.update({kind: os.readlink(f"/proc/self/ns/{kind}") for kind in stale.FIRST})
    System.is_container = lambda self: False  # type: ignore[method-assign]


class Node:
    """Inside: starts processes in control groups of jobs, and looks at them as npudoctor does."""

    def __init__(self, mounted: Path, number: int) -> None:
        self.groups = mounted
        self.job = f"4294900{number}"

    def start(
        self, *argv: str, job: Optional[str] = "", uid: Optional[int] = None, **options: Any
    ) -> subprocess.Popen[str]:
        """A process in a job that is over, or (None) in none; a shell reads a line before it goes on."""
        if uid is not None:
            options.update(user=uid, group=uid, extra_groups=[])
        process = subprocess.Popen(argv, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        if job is not None:
            self.move(process.pid, job or self.job)
        return process

    def move(self, pid: int, job: str) -> None:
        """Put a process into the group of a job."""
        folder = self.groups / GROUPS / f"job_{job}" / "step_0"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text(str(pid))

    def slurm_says(self, text: str, job: str = "") -> None:
        """What scontrol prints of a job from now on; before, it knows no job any more."""
        Path(f"{SLURM}/job_{job or self.job}").write_text(text)

    def stepd(self, job: str = "") -> subprocess.Popen[str]:
        """What looks after a job from now on."""
        title = f"slurmstepd: [{job or self.job}.0]"
        started = self.start("bash", "-c", f"exec -a '{title}' sleep 600", job=None)
        until = time.monotonic() + 10
        line = Path(f"/proc/{started.pid}/cmdline")
        while not line.read_text().startswith(title) and time.monotonic() < until:
            time.sleep(0.01)
        return started

    def host(self, owners: Sequence[int] = (), pidfds: Optional[Pidfds] = None) -> Host:
        """A fresh look, an hour later than it is: nothing is too young."""
        options, identity = Options(expect="none"), current_identity(frozenset(owners))
        clock = FakeClock(time.time() + 3600)
        return Host(options, identity=identity, pidfds=pidfds or Pidfds(), clock=clock)

    def ask(self, check: Check = stale_processes) -> Asked:
        """What the check says."""
        return ask(check, self.host())

    def npudoctor(self, *words: str) -> tuple[int, dict[str, Any]]:
        """The command that a person types, an hour later: its status, and its JSON."""
        argv = [sys.executable, "-c", CLI, *words, "--format", "json"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT, timeout=60)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def step(self) -> SignalProcess:
        """The one step that the check has for what was left behind."""
        found = [step for one in self.ask().findings if one.fix for step in one.fix.steps]
        (step,) = (one for one in found if isinstance(one, SignalProcess))
        return step


def on_a_node(scene: Callable[[Node], T]) -> T:
    """The answer of a scene that is played on such a node; whatever it started ends with it."""
    with tempfile.TemporaryDirectory(prefix="npudoctor-", dir=open_place()) as mounted:
        number = os.getpid()

        def outer() -> T:
            ipc.unshare("pid", "mnt")
            return forked(inner)

        def inner() -> T:
            ipc.mount_proc()
            done = subprocess.run(
                ["mount", "-t", "cgroup2", "none", mounted], capture_output=True, check=False
            )
            try:
                if done.returncode:
                    raise OSError(done.stderr.decode())
                (Path(mounted) / GROUPS).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise NoGroups(str(error)) from None
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/var/lib"], check=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", SLURM], check=True)
            Path(f"{SLURM}/scontrol").write_text(SCONTROL)
            Path(f"{SLURM}/scontrol").chmod(0o755)
            believe()
            return scene(Node(Path(mounted), number))

        try:
            return forked(outer)
        finally:
            _clear(mounted, number)


def _clear(mounted: str, number: int) -> None:
    """Remove the groups: they are the kernel's, and outlive the namespaces in which they were made."""

    def clear() -> None:
        ipc.unshare("mnt")
        ipc.mount_proc()
        subprocess.run(["mount", "-t", "cgroup2", "none", mounted], check=False, capture_output=True)
        top = Path(mounted) / GROUPS
        for job in top.glob(f"job_4294900{number}*"):
            _remove(job / "step_0")
            _remove(job)
        for folder in (top, top.parent):
            with suppress(OSError):  # another's groups are in it
                folder.rmdir()

    forked(clear)


def _remove(folder: Path) -> None:
    """Once the last process in it has ended."""
    until = time.monotonic() + 5
    while folder.exists():
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def playing(lack: Callable[[str], None]) -> Callable[[Callable[[Node], T]], T]:
    """Plays scenes, where control groups can be made."""

    def play(scene: Callable[[Node], T]) -> T:
        try:
            return on_a_node(scene)
        except AssertionError as failure:
            if NoGroups.__name__ in str(failure):
                lack(f"no control group of version 2 can be made: {failure}")
            raise

    return play
