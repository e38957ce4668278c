"""Asks about files on mounts that may block, in a child process that can be left behind.

A thread stuck in a dead mount keeps its whole process from ending; a child does not. One child
serves one mount, so that a dead mount costs its deadline once and delays no other.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any, Optional

from npudoctor.core.errors import CannotTell, Silent
from npudoctor.core.forked import Late, read_line, start_apart
from npudoctor.core.messages import _

SERVER = r"""
import base64, itertools, json, os, sys
def answer(op, path, limit, start):
    if op == "lstat":
        status = os.lstat(path)
        return list(status) + [status.st_mtime_ns, status.st_ctime_ns, status.st_blocks * 512]
    if op == "readlink": return base64.b64encode(os.readlink(path)).decode()
    if op == "names":
        with os.scandir(path) as entries:
            names = (entry.name for entry in itertools.islice(entries, limit or None))
            return [base64.b64encode(name).decode() for name in names]
    if op == "owners":
        with os.scandir(path) as entries:
            pairs = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        encode = lambda name: base64.b64encode(name).decode()
        return [(encode(name), status.st_uid, status.st_mode) for name, status in pairs]
    if op == "stamps":
        folder, *names = path.split(b"\0")
        sizes, mtimes, folders = [], [], {}
        for name in names:
            mtimes.append(0)
            try:
                status = os.lstat(folder + b"/" + name)
                kind = status.st_mode & 0o170000
                above = folder + b"/" + name.rpartition(b"/")[0]
                if above not in folders: folders[above] = os.access(above, os.R_OK | os.X_OK)
                # A server may take root for nobody (root_squash): the kernel is asked for root too.
                may_read = os.access(folder + b"/" + name, os.R_OK)
                if kind == 0o100000 and not (folders[above] and may_read): sizes.append(-4)
                else: sizes.append(status.st_size if kind == 0o100000 else -3 if kind == 0o120000 else -2)
                if kind == 0o100000: mtimes[-1] = int(status.st_mtime)
            except (FileNotFoundError, NotADirectoryError): sizes.append(-1)
            except PermissionError: sizes.append(-4)
        return [sizes, mtimes]
    if op == "access": return os.access(path, limit)
    if op == "space":
        v = os.statvfs(path)
        return [v.f_blocks * v.f_frsize, v.f_bavail * v.f_frsize, v.f_files, v.f_favail,
            os.stat(path).st_dev, bool(v.f_flag & os.ST_RDONLY)]
    if op == "read":
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if start: os.lseek(fd, start, 0)
        parts, remaining = [], limit
        while remaining > 0:
            part = os.read(fd, min(remaining, 1 << 20))
            if not part: break
            parts.append(part); remaining -= len(part)
        os.close(fd)
        return base64.b64encode(b"".join(parts)).decode()
for line in sys.stdin:
    op, path, limit, start = json.loads(line)
    try: reply = {"ok": answer(op, base64.b64decode(path), limit, start)}
    except OSError as error: reply = {"errno": error.errno or 5}
    sys.stdout.write(json.dumps(reply) + "\n"); sys.stdout.flush()
"""


class MountChild:
    """The child that touches one mount; it is given up once it has missed a deadline. Thread-safe.

    `deadline`: how long one answer may take, in seconds.
    """

    def __init__(self, mount: str, deadline: float) -> None:
        self._mount, self._deadline = mount, deadline
        self._lock = threading.Lock()
        self._child: Optional[subprocess.Popen[bytes]] = None
        self._is_dead = False

    def ask(self, op: str, path: str, limit: int = 0, start: int = 0) -> Any:
        """The answer to one operation of SERVER; its OSError, or CannotTell if no answer came in time."""
        with self._lock:
            if self._is_dead:
                raise self._make_timeout_error()
            try:
                reply = self._exchange(op, path, limit, start)
            except (OSError, ValueError):
                reply = None
            if reply is None:
                self._is_dead = True
                self.close()
                raise self._make_timeout_error()
        if "errno" in reply:
            raise OSError(reply["errno"], os.strerror(reply["errno"]), path)
        return reply["ok"]

    def close(self) -> None:
        """Kill the child; one that hangs in the kernel is left behind."""
        if self._child is not None:
            self._child.kill()
            for pipe in (self._child.stdin, self._child.stdout):
                if pipe is not None:
                    pipe.close()
            self._child = None

    def _exchange(self, op: str, path: str, limit: int, start: int) -> Optional[dict[str, Any]]:
        if self._child is None:
            self._child = start_apart(
                # -I -S: neither PYTHONPATH nor site-packages, which may lie on the very mount that hangs.
                [sys.executable, "-I", "-S", "-c", SERVER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
            )
        child = self._child
        if child.stdin is None or child.stdout is None:
            return None
        # Paths are bytes, which JSON cannot hold; base64 carries those that are not UTF-8, too.
        request = [op, base64.b64encode(os.fsencode(path)).decode(), limit, start]
        child.stdin.write(json.dumps(request).encode() + b"\n")
        child.stdin.flush()
        try:
            line = read_line(child.stdout.fileno(), time.monotonic() + self._deadline)
        except Late:
            return None
        answer: Optional[dict[str, Any]] = None if line is None else json.loads(line)
        return answer

    def _make_timeout_error(self) -> CannotTell:
        return Silent(
            _(
                "the file system mounted at {mount} does not answer within {seconds:g} s",
                mount=self._mount,
                seconds=self._deadline,
            )
        )
