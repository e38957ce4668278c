"""Starts npudoctor in a fork of a process that has loaded it: loading is nearly all that a start takes.

A command run this way is a process of its own with its own variables, folder and streams, like any other.
What hangs on Python's own start (its variables, what it loads) needs a real one.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Optional

NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid_for_children", "user", "uts")
# Python and the loader read these before our first line: a start of its own each.
OF_THE_START = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "TZ")
# Read once by Python, or while modules load, as the texts of options are translated then: a process each.
OF_THE_LANGUAGE = ("LANG", "LC_", "NPUDOCTOR_LANG")

SERVER = """
import json, os, signal, socket, sys
from npudoctor.core.trust import guard
guard.secure(())
from npudoctor.__main__ import end_at_once
from npudoctor.cli import main
from npudoctor.core import messages

def loaded(line):
    "What a command loads, asked in a fork: nothing else of it stays."
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        nothing = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        try:
            main.exit_now = lambda status: None
            main.run(line)
        finally:
            os.write(writing, " ".join(sys.modules).encode())
            os._exit(0)
    os.close(writing)
    with open(reading) as names:
        told = names.read().split()
    os.wait()
    return told

language = json.loads(sys.argv[3])
asked = language[-1].rpartition("=")[2] if language else ""
known = asked[:2].lower() in messages.LANGUAGES
messages.activate(messages.language_of({"NPUDOCTOR_LANG": asked} if known else os.environ))
lines, names = json.loads(sys.argv[2])
for line in () if names else lines:
    names += loaded([*language, *line])
for name in names:
    if name not in sys.modules and name != "__main__":
        __import__(name)

channel = socket.socket(fileno=int(sys.argv[1]))
channel.sendall(json.dumps(list(sys.modules)).encode())
while True:
    message, files, _flags, _address = socket.recv_fds(channel, 1 << 20, 2)
    if not message:
        os._exit(0)
    words, variables, folder, mask = json.loads(message)
    child = os.fork()
    if child == 0:
        channel.close()
        for number, file in zip((1, 2), files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(folder)
        os.umask(mask)
        os.environ.clear()
        os.environ.update(variables)
        sys.argv[1:] = words
        end_at_once(main.run(words))
    for file in files:
        os.close(file)
    channel.sendall(b"%d" % child)
    _child, status = os.waitpid(child, 0)
    channel.sendall(b"%d" % os.waitstatus_to_exitcode(status))
"""

# What nearly every line loads; more is loaded by the child that needs it.
USUAL = (
    ("check", "--profile", "full", "--expect", "none", "--format", "json"),
    ("check", "kernel-version", "--unknown-option"),
    ("--help",),
    ("explain", "/dev/null"),
)


class WarmStart:
    """A process that has loaded npudoctor with these variables; made again where its maker has changed since.

    `language`: the words of a line that choose a language.
    """

    def __init__(self, variables: Mapping[str, str], language: Sequence[str]) -> None:
        self._variables = {"PATH": os.environ["PATH"], "HOME": "/", "NPUDOCTOR_CHECKS_DIR": "", **variables}
        self._language = list(language)
        self._channel: Optional[socket.socket] = None
        self._server: Optional[subprocess.Popen[bytes]] = None
        self._seen: object = None

    def run(
        self, words: Sequence[str], variables: Mapping[str, str], folder: str, timeout: float
    ) -> tuple[int, bytes, bytes]:
        """Run one line to its end; returns the status (negative: the signal), standard output and error.

        subprocess.TimeoutExpired where it does not end in `timeout` seconds: it is killed then.
        """
        channel = self._connected()
        pipes = [os.pipe(), os.pipe()]
        mask = os.umask(0o022)
        os.umask(mask)
        message = json.dumps([list(words), dict(variables), folder, mask]).encode()
        socket.send_fds(channel, [message], [writing for _reading, writing in pipes])
        for _reading, writing in pipes:
            os.close(writing)
        child = self._number(channel)
        try:
            said = _read_all([reading for reading, _writing in pipes], time.monotonic() + timeout)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            self._number(channel)
            raise subprocess.TimeoutExpired(list(words), timeout) from None
        finally:
            for reading, _writing in pipes:
                os.close(reading)
        return self._number(channel), said[0], said[1]

    def close(self) -> None:
        """End the process."""
        if self._channel is not None and self._server is not None:
            self._channel.close()
            self._server.wait(10)
        self._channel = self._server = None

    def _connected(self) -> socket.socket:
        # A test may move its worker into namespaces of its own, or lower its limits.
        now = _surroundings()
        if self._channel is None or now != self._seen:
            self.close()
            self._seen = now
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # a message stays one
            words = [str(theirs.fileno()), json.dumps([USUAL, _names]), json.dumps(self._language)]
            self._server = subprocess.Popen(
                [sys.executable, "-c", SERVER, *words],
                env=self._variables, cwd="/", stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip
            theirs.close()
            self._channel = ours
            names = json.loads(self._message(ours, 1 << 20))
            # The first asked the usual lines, which costs more than to load: all others load the same.
            _names[:] = _names or names
        return self._channel

    def _number(self, channel: socket.socket) -> int:
        return int(self._message(channel, 64))

    def _message(self, channel: socket.socket, most: int) -> bytes:
        told = channel.recv(most)
        assert told, "the process that has loaded npudoctor has ended"
        return told


def _surroundings() -> object:
    limits = [
        resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")
    ]
    spaces = [os.stat(f"/proc/self/ns/{name}").st_ino for name in NAMESPACES]
    return limits, spaces, os.getresuid(), os.getresgid(), os.getgroups(), os.sched_getaffinity(0)


def _read_all(files: Sequence[int], deadline: float) -> list[bytes]:
    said = dict.fromkeys(files, b"")
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready and time.monotonic() >= deadline:
                raise TimeoutError
            for key, _events in ready:
                more = os.read(key.fd, 1 << 16)
                said[key.fd] += more
                if not more:
                    selector.unregister(key.fd)
    return [said[file] for file in files]


_names: list[str] = []  # of the modules that the first server has loaded
_servers: dict[object, WarmStart] = {}  # the one that was used last is the last
_asked: Counter[object] = Counter()
MOST_CHARACTERS = 20_000  # of a line: a message may have 200 KiB
MOST = 4  # of them at once, 40 MB each


def run_warm(
    words: Sequence[str], variables: Mapping[str, str], folder: str, timeout: float
) -> Optional[tuple[int, bytes, bytes]]:
    """Run a line as WarmStart.run does; None where it must start by itself, or its language is rare."""
    too_long = sum(map(len, (*words, *variables, *variables.values()))) > MOST_CHARACTERS
    if too_long or any(name.startswith(OF_THE_START) for name in variables):
        return None
    chosen = {name: value for name, value in variables.items() if name.startswith(OF_THE_LANGUAGE)}
    language: list[str] = []
    for word, following in zip(words, [*words[1:], ""]):
        if word == "--lang":
            language = [word, following]
        elif word.startswith("--lang"):
            language = [word]
    key = (tuple(sorted(chosen.items())), tuple(language))
    _asked[key] += 1
    if key not in _servers:
        if (chosen or language) and _asked[key] < 3:  # its first two starts stay real ones
            return None
        if len(_servers) == MOST:
            _servers.pop(next(iter(_servers))).close()
        _servers[key] = WarmStart(chosen, language)
    _servers[key] = _servers.pop(key)
    return _servers[key].run(words, variables, folder, timeout)


def _close_all() -> None:
    for server in _servers.values():
        server.close()


atexit.register(_close_all)
