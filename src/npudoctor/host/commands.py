"""Runs a program of the machine: no shell, a deadline that holds, bounded output, never an exception."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Callable, Optional

from npudoctor.frozen import dataclass
from npudoctor.host.files import Files
from npudoctor.host.running import collected, end, kill_group

FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
OUTPUT_LIMIT = 4 << 20
START_SECONDS = 0.5  # how long the end of the run waits for a program that is being started


@dataclass(frozen=True)
class Answer:
    """How a program ended.

    `ended`: "exited", "missing", "untrusted", "not-started", "timeout", "flooded" (more output than
    the limit). `status` is the exit status, negative for a signal, None when there is none.
    `left_behind` is the pid of a program that did not die when it was killed.
    """

    argv: tuple[str, ...]
    ended: str
    status: Optional[int] = None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    left_behind: Optional[int] = None

    @property
    def ok(self) -> bool:
        """Whether it ran to its end and said so."""
        return self.ended == "exited" and self.status == 0


class Commands:
    """The programs of the running machine. Each answer is asked once and kept for all checks."""

    def __init__(
        self,
        files: Files,
        *,
        as_root: bool,
        may_block: Callable[[str], bool] = lambda path: False,
        variables: Optional[Mapping[str, str]] = None,
    ) -> None:
        self._files = files
        self._as_root = as_root
        self._may_block = may_block
        self._variables = dict(variables or {})
        self._running: set[int] = set()
        self._starting, self._closed = threading.Lock(), False

    def close(self) -> None:
        """Kill what still runs, with its group, and start nothing more: who asks now was left behind."""
        self._closed = True
        # What is being started is in the list a moment later; a start that hangs is left behind.
        if self._starting.acquire(timeout=START_SECONDS):
            self._starting.release()
        for pid in list(self._running):
            kill_group(pid)

    def find(self, name: str) -> Optional[str]:
        """The absolute path of a program in the system's own folders, or None."""
        for folder in FOLDERS:
            entry = self._files.stat(f"{folder}/{name}")
            if entry is not None and entry.is_file and entry.mode & 0o111:
                return f"{folder}/{name}"
        return None

    def may_run(self, path: str) -> bool:
        """Whether this user runs a file at all: root only what nobody else could have written."""
        return not self._as_root or self.trusted(path)

    def trusted(self, path: str) -> bool:
        """Whether root may run it: the file, all folders and links on the way to it are root's, and nobody
        else may write them (in a sticky folder others touch only their own). So nobody can put another
        file there between this look and the start."""
        way = self._files.way(path)
        return bool(way) and all(
            entry.uid == 0 and (entry.is_link or entry.sticky or not entry.permissions & 0o022)
            for entry in way
        )

    def trusted_path(self) -> str:
        """The caller's PATH; for root without the folders that others may write."""
        folders = self._variables.get("PATH", "").split(":")
        return ":".join(
            folder
            for folder in folders
            if folder.startswith("/") and (not self._as_root or self.trusted(folder))
        )

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 5.0,
        limit: int = OUTPUT_LIMIT,
        variables: Optional[Mapping[str, str]] = None,
        here: bool = False,
    ) -> Answer:
        """Run a program given by absolute path, or by a name that is looked up in the system's folders.

        `variables` replace the small clean environment; `here` runs it in the caller's working
        directory instead of "/", where that cannot block.
        """
        told = tuple(argv)
        path = argv[0] if argv[0].startswith("/") else self.find(argv[0])
        if path is None or (self._as_root and self._files.real(path) is None):
            return Answer(told, "missing", 127)
        if self._as_root and not self.trusted(path):
            return Answer(told, "untrusted")
        command: list[str] = [path, *argv[1:]]
        if self._may_block(path):
            # execve of a file on a dead mount would hang this process before the child is free of it.
            command.insert(0, "/usr/bin/env")
        environment = self._environment() if variables is None else dict(variables)
        folder = self._working_directory() if here else "/"
        return self._run(told, command, timeout, limit, environment, folder)

    def _environment(self) -> dict[str, str]:
        clean = {"PATH": ":".join(FOLDERS), "LC_ALL": "C"}
        for name in ("HOME", "USER"):
            if name in self._variables:
                clean[name] = self._variables[name]
        return clean

    def _working_directory(self) -> str:
        try:
            folder = os.getcwd()
        except OSError:
            return "/"
        return "/" if self._may_block(folder) else folder

    def _run(
        self,
        told: tuple[str, ...],
        command: list[str],
        timeout: float,
        limit: int,
        environment: dict[str, str],
        folder: str,
    ) -> Answer:
        started = time.monotonic()
        try:
            child = self._start(command, environment, folder)
        except (OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError)
            return Answer(
                told, "missing" if missing else "not-started", 127 if missing else None, stderr=str(error)
            )
        ended, output = collected(child, started + timeout, limit)
        left_behind = end(child, ended)
        self._running.discard(child.pid)
        return Answer(
            told,
            ended,
            child.returncode if ended == "exited" else None,
            output[0].decode("utf-8", "surrogateescape"),
            output[1].decode("utf-8", "surrogateescape"),
            time.monotonic() - started,
            left_behind,
        )

    def _start(self, command: list[str], environment: dict[str, str], folder: str) -> subprocess.Popen[bytes]:
        """Start it, so that close() knows of it: OSError when it cannot be, or the run is over."""
        with self._starting:
            if self._closed:
                raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
            self._running.add(child.pid)
        return child
