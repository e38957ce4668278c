"""Real dataset cache servers: start, fill, kill and ask them, and see what they leave."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional

import psutil

from .mindspore_env import MindSpore
from .sysv import Segment, segments

COMMON = Path("/tmp/mindspore")
CLIENT = Path(__file__).with_name("client.py")
SECONDS = 90  # for one command: MindSpore's import alone takes seconds on a busy machine
TURNS = 5
UNREACHABLE = "is unreachable. Make sure the server is running"
# Without the caller's MS_CACHE_* and GLOG_v, which the binaries read.
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C.UTF-8"}


def until(what: str, holds: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.1)


def free_port() -> int:
    """A port whose number no server of the machine uses.

    Servers open no TCP socket. But processes and /proc/net/unix are not the test's own, and a doctor that
    sees a living server of the same port, though it lives in another mount namespace, rightly refuses.
    """
    unix = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace")
    taken = {int(port) for port in re.findall(r"/cache_server_p(\d+)", unix)}
    taken.update(server_ports())
    return next(port for port in random.sample(range(50052, 60000), 99) if port not in taken)


def server_ports() -> Iterator[int]:
    """The ports of all processes that look like a server."""
    for process in psutil.process_iter(["name", "cmdline"]):
        arguments = process.info["cmdline"] or []
        if (process.info["name"] or "").startswith("dataset-cache") and len(arguments) > 3:
            yield from (int(word) for word in arguments[3:4] if word.isdigit())


@dataclass
class CacheServer:
    """One server, from before its start to after its death."""

    mindspore: MindSpore
    port: int
    spill_root: Optional[Path] = None
    pid: int = field(default=0, init=False)
    left: list[Path] = field(default_factory=list, init=False)  # its containers, once it was killed

    def admin(self, *arguments: str) -> str:
        """What `dataset-cache` prints; it must succeed."""
        command = [str(self.mindspore.dataset_cache), *arguments, "-p", str(self.port)]
        for turn in range(TURNS):
            # To a file: the daemon keeps its starter's stdout: a pipe would stay open as long as it lives.
            with open(f"/tmp/dataset-cache-{self.port}.txt", "w+", encoding="utf-8") as output:
                done = subprocess.run(
                    command,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=ENVIRONMENT,
                    timeout=SECONDS,
                    check=False,
                )
                output.seek(0)
                text = output.read()
            if done.returncode == 0 or not self.is_busy(text):
                break
            time.sleep(turn + 1)
        assert done.returncode == 0, text
        return text

    def is_busy(self, text: str) -> bool:
        """Whether somebody gave up on a server that lives, as they soon do on a busy machine."""
        return UNREACHABLE in text and self.pid != 0 and self.listens()

    def start(self) -> None:
        """Return when it answers: the success that `--start` prints means nothing."""
        spill = ["--spilldir", str(self.spill_root)] if self.spill_root else []
        said = self.admin("--start", "--workers", "1", *spill)
        started = re.search(r"process id (\d+) ", said)
        assert started, said
        self.pid = int(started[1])
        until(f"the server on port {self.port} listens", self.listens)

    @property
    def socket(self) -> Path:
        """Where its socket file is: below a folder of the login name, where there is one."""
        name = f"cache_server_p{self.port}"
        found = [*COMMON.glob(name), *COMMON.glob(f"*/{name}")]
        assert len(found) == 1, found
        return found[0]

    def listens(self) -> bool:
        """Does connect() work?"""
        if not list(COMMON.glob(f"**/cache_server_p{self.port}")):
            return False
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect_ex(str(self.socket)) == 0

    def segment(self) -> Segment:
        """Its one segment, by the creator's pid."""
        (found,) = (one for one in segments().values() if one.cpid == self.pid)
        return found

    def logs(self) -> dict[Path, bytes]:
        """Its log files with their content."""
        return {path: path.read_bytes() for path in COMMON.glob(f"**/log/*.{self.pid}")}

    def server_info(self) -> str:
        """What it says about itself."""
        return self.admin("--server_info")

    def sessions(self) -> str:
        """Its sessions with the statistics of their caches."""
        return self.admin("--list_sessions")

    def new_session(self) -> int:
        """A session, which holds what clients cache."""
        made = re.search(r"Session created .*: (\d+)", self.admin("--generate_session"))
        assert made
        return int(made[1])

    def containers(self) -> list[Path]:
        """The files with spilled rows that it has open; another server may spill to the same directory."""
        opened = (Path(file.path) for file in psutil.Process(self.pid).open_files())
        return sorted(path for path in opened if path.match("IMG*.LB"))

    def client(self, session: int, seed: int, kind: str) -> dict[str, Any]:
        """Read the rows through the session's cache; see client.py."""
        command = self.client_command(session, seed, kind)
        for turn in range(TURNS):
            said = subprocess.run(
                command, env=ENVIRONMENT, timeout=SECONDS, check=False, capture_output=True, text=True
            )
            if said.returncode == 0 or not self.is_busy(said.stderr):
                break
            time.sleep(turn + 1)
        assert said.returncode == 0, said.stderr
        answer: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
        return answer

    def attached_client(self, session: int, kind: str) -> subprocess.Popen[str]:
        """A client that has read the rows and stays attached until its stdin is closed."""
        command = [*self.client_command(session, 1, kind), "hold"]
        client = subprocess.Popen(
            command, env=ENVIRONMENT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert client.stdout
        assert "checksum" in client.stdout.readline()
        return client

    def client_command(self, session: int, seed: int, kind: str) -> list[str]:
        """The command line of a client."""
        numbers = [str(number) for number in (self.port, session, seed)]
        return [str(self.mindspore.python), str(CLIENT), *numbers, kind]

    def kill(self, reap: bool = True) -> None:
        """kill -9. Not reaped it stays a zombie, as in a container without an init."""
        self.left = self.containers()
        os.kill(self.pid, signal.SIGKILL)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)  # we adopted the daemon
        if reap:
            os.waitpid(self.pid, 0)

    def stop(self) -> None:
        """A clean end."""
        self.admin("--stop")
        os.waitpid(self.pid, 0)

    def settle(self, seconds: float = 11) -> None:
        """Wait until its socket is so old that the server can not be a starting one (10 s)."""
        time.sleep(max(0.0, self.socket.stat().st_mtime + seconds - time.time()))
