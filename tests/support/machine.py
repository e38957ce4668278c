"""A machine of the test's own: a place for /tmp, a journal, servers that are killed, and a doctor for it."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional

from npudoctor import Status
from npudoctor.checks.leftovers.cache_server import cache_server
from npudoctor.core.model import Report, Result, Verdict
from npudoctor.fixing.engine import FixContext, FixReport, fix
from npudoctor.fixing.plan import FixRequest, Item
from npudoctor.host import Host, Options
from npudoctor.host.records import Records
from npudoctor.host.users.identity import current_identity
from npudoctor.runner.description import minimal_host, minimal_target
from npudoctor.testing import Asked, FakeClock, ask

from . import ipc
from .room import open_place

PROGRAM = "dataset-cache-server"
ROOT = Path(__file__).parents[2]
# Ports of this process's own: a living server of the same port in another suite that runs beside it would
# rightly keep ours from being called dead. Pids repeat from namespace to namespace.
PORT = 10_000 + (os.getpid() + 101 * os.stat("/proc/self/ns/pid").st_ino) % 2_500 * 20
FIND = f"import sys; sys.path.append({str(ROOT)!r})"
SERVE = f"{FIND}; from tests.support.server import main; main(sys.argv[1:])"


@functools.cache
def program() -> Path:
    """Python under the name of a cache server: that name is what /proc/PID/exe then shows."""
    home = Path(tempfile.mkdtemp(prefix="npudoctor-", dir=open_place()))
    atexit.register(shutil.rmtree, home)
    real = Path(sys.executable).resolve()
    (home / "bin").mkdir()
    shutil.copy(real, home / "bin" / PROGRAM)
    (home / "pyvenv.cfg").write_text(f"home = {real.parent}\n")
    return home / "bin" / PROGRAM


@dataclass
class Server:
    """A process that was started, and what it said that it made."""

    process: subprocess.Popen[str]
    pid: int
    shmid: int
    key: int = 0
    socket: Path = Path()
    log: Path = Path()
    spill: Path = Path()

    def signal(self, number: int) -> None:
        """Send it a signal; wait until it is stopped or ended."""
        os.kill(self.pid, number)
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)
        elif number != signal.SIGCONT:
            self.process.wait(10)

    def die(self) -> None:
        """As by kill -9, or out of memory."""
        self.signal(signal.SIGKILL)


class Machine:
    """Servers below a directory of its own, and everything that must be undone afterwards."""

    def __init__(self) -> None:
        # Not pytest's tmp_path: other users must be able to come here.
        self.home = Path(tempfile.mkdtemp(prefix="npudoctor-", dir=open_place()))
        self.home.chmod(0o755)
        self.tmp = self.home / "tmp"
        self.tmp.mkdir()
        self.tmp.chmod(0o1777)
        self.state = self.home / "state"
        self._started: list[Server] = []
        self._shmids: set[int] = set()

    def close(self) -> None:
        """End what was started, by pid; remove what was made, by id."""
        for server in self._started:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait(10)
        for shmid in self._shmids:
            ipc.remove(shmid)
        shutil.rmtree(self.home)

    def server(self, port: int = PORT, *arguments: object, spill: bool = False) -> Server:
        """A server that serves."""
        words = [str(port), "--tmp", str(self.tmp), *map(str, arguments)]
        if spill:
            (self.home / "spill").mkdir(exist_ok=True)
            words += ["--spill", str(self.home / "spill")]
        return self._start(*words)

    def dead_server(self, port: int = PORT, *arguments: object, spill: bool = False) -> Server:
        """One that was killed."""
        server = self.server(port, *arguments, spill=spill)
        server.die()
        return server

    def client(self, shmid: int) -> Server:
        """A process that has the segment attached."""
        return self._start("--attach", str(shmid), executable=sys.executable)

    def segment(self, key: int, size: int = ipc.GIB, mode: int = 0o600) -> int:
        """A segment whose maker is dead and that nobody is attached to."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(writing, str(ipc.make(key, size, mode)).encode())
            finally:
                os._exit(0)
        os.close(writing)
        os.waitpid(pid, 0)
        with open(reading, encoding="ascii") as pipe:
            shmid = int(pipe.read())
        self.owes(shmid)
        return shmid

    def owes(self, shmid: int) -> None:
        """Remember to remove a segment at the end."""
        self._shmids.add(shmid)

    def lose(self, path: Path) -> None:
        """Take a socket file away, and keep its inode from being given to the next one."""
        path.rename(self.home / path.name)

    def _start(self, *words: str, executable: Optional[str] = None) -> Server:
        # By -c, as Python would take the port for a script: a server has it as its third argument.
        command = [executable or str(program()), "-ISc", SERVE, *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd="/")
        assert process.stdout is not None
        said = json.loads(process.stdout.readline() or "{}")
        assert said, "the stand-in did not start"
        paths = {name: Path(said.get(name, "")) for name in ("socket", "log", "spill")}
        server = Server(process, said["pid"], said["shmid"], said.get("key", 0), **paths)
        self._started.append(server)
        self.owes(server.shmid)
        return server

    def host(self, owners: Iterable[int] = (), euid: Optional[int] = None) -> Host:
        """A doctor's fresh look; a minute later than it is, so that nothing is too young."""
        euid = os.geteuid() if euid is None else euid
        return Host(
            Options(tmp=str(self.tmp)),
            identity=current_identity(frozenset(owners)),
            clock=FakeClock(time.time() + 60),
            records=Records(str(self.state), euid),
        )

    def ask(self, owners: Iterable[int] = ()) -> Asked:
        """What the check says."""
        return ask(cache_server, self.host(owners))

    def codes(self) -> list[str]:
        """The codes that the check finds, in order and without their common beginning."""
        return [code.partition(".")[2] for code in self.ask().codes]

    def fix(
        self, owners: Iterable[int] = (), *, yes: bool = True, dry_run: bool = False, **hooks: Any
    ) -> FixReport:
        """`fix --cache-server`, with hooks between plan and apply, and around every change."""
        request = FixRequest(("cache-server",), yes=yes, dry_run=dry_run)
        show: Callable[[Sequence[Item]], None] = hooks.pop("planned", lambda items: None)
        hooks.setdefault("confirm", lambda item: None)
        context = FixContext(look=lambda: self.report(owners), host=lambda: self.host(owners), **hooks)
        return fix(request, context, show)

    def report(self, owners: Iterable[int] = ()) -> Report:
        """A report with the one row; what the runner makes with threads, without them."""
        host = self.host(owners)
        asked = ask(cache_server, host)
        row = Result(
            "cache-server", cache_server.title, "leftovers", asked.status, findings=asked.findings,
            reason=asked.reason, needed=asked.status is not Status.SKIPPED and not asked.advisory,
        )  # fmt: skip
        verdict = Verdict.UNDETERMINED
        described = minimal_host(host), minimal_target(host)
        return Report("0", "", 0.0, "full", "all", *described, verdict, 2, "", {}, (row,))

    def tree(self) -> list[str]:
        """Every path below the place of servers and their spilled data, but for logs."""
        kept = [self.home / "spill", self.tmp]
        paths = [path for top in kept for path in sorted(top.rglob("*"))]
        return [str(path.relative_to(self.home)) for path in paths if ".log." not in path.name]

    def journal(self) -> list[dict[str, Any]]:
        """Every record of all runs; each line must be one."""
        files = sorted((self.state / "journal").glob("*.jsonl")) if self.state.exists() else []
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def told(report: FixReport) -> list[str]:
    """What a report says of each item, for the message of a test that fails."""
    items = ((one.item.finding, one.outcome) for one in report.actions)
    return [f"{one.code} {end.status.value}: {end.reason}; {one.evidence}" for one, end in items]


def older(path: Path, seconds: float) -> None:
    """Set a file's mtime back."""
    then = path.lstat().st_mtime - seconds
    os.utime(path, (then, then), follow_symlinks=False)


def gone(pid: int) -> bool:
    """Whether no process has this pid."""
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return False
    return True
