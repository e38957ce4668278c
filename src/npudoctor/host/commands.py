"""Runs a program of the machine: no shell, a deadline that holds, bounded output, never an exception."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Callable, Optional

from npudoctor.frozen import dataclass
from npudoctor.host.files import Files

FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
OUTPUT_LIMIT = 4 << 20
LOOK_SECONDS = 0.1  # how often a program that says nothing is looked at
REAP_SECONDS = 0.5  # how long a killed program may take to be gone before it is left behind


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

    def close(self) -> None:
        """Kill what still runs, with its group: the checks that asked were left behind."""
        for pid in list(self._running):
            _kill_group(pid)

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
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError)
            return Answer(
                told, "missing" if missing else "not-started", 127 if missing else None, stderr=str(error)
            )
        self._running.add(child.pid)
        ended, output = _collect(child, started + timeout, limit)
        left_behind = _end(child, ended)
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


def _collect(child: subprocess.Popen[bytes], until: float, limit: int) -> tuple[str, list[bytes]]:
    """Read both pipes until they close, the deadline passes, or more comes than anybody can use."""
    parts: list[bytearray] = [bytearray(), bytearray()]
    with selectors.DefaultSelector() as selector:
        for index, pipe in enumerate((child.stdout, child.stderr)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, index)
        ended = None
        while ended is None:
            ended = _read_on(selector, child, parts, until, limit)
    return ended, [bytes(part[:limit]) for part in parts]


def _read_on(
    selector: selectors.BaseSelector,
    child: subprocess.Popen[bytes],
    parts: list[bytearray],
    until: float,
    limit: int,
) -> Optional[str]:
    """Take what the pipes hold now, or wait a moment for it; how the program ended, once it has."""
    left = until - time.monotonic()
    open_pipes = bool(selector.get_map())
    ready = selector.select(max(0.0, min(left, LOOK_SECONDS))) if open_pipes else []
    for key, _events in ready:
        part = os.read(key.fd, 1 << 16)
        if not part:
            selector.unregister(key.fileobj)
        parts[key.data] += part
        if len(parts[key.data]) > limit:
            return "flooded"
    if left <= 0 and child.poll() is None:
        return "timeout"
    if not open_pipes:
        return _exited(child, left)
    # A daemon that the program started may hold the pipes open after its end; and between our look at them
    # and its end the program may have written its last.
    over = not ready and child.poll() is not None and not selector.select(0)
    return "exited" if over else None


def _exited(child: subprocess.Popen[bytes], left: float) -> str:
    """Both pipes are closed, which a program may do long before its end."""
    try:
        child.wait(left)
    except subprocess.TimeoutExpired:
        return "timeout"
    return "exited"


def _end(child: subprocess.Popen[bytes], ended: str) -> Optional[int]:
    """Close the pipes and kill what is left of the group; the pid when it does not die."""
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
    if ended == "exited":
        return None
    _kill_group(child.pid)
    try:
        child.wait(REAP_SECONDS)
    except subprocess.TimeoutExpired:
        return child.pid
    return None


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # gone already, or changed its user
        os.killpg(pid, signal.SIGKILL)
