"""All that the rules on cache servers need to know of the machine, gathered in one go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from npudoctor.frozen import dataclass
from npudoctor.host import CannotTell, Host
from npudoctor.host.cachelog import ServerLog, read_logs
from npudoctor.host.cacheserver import PROGRAMS, SocketFile, open_directory, places, socket_files
from npudoctor.host.sockets import Listener
from npudoctor.host.sysvipc import Segment
from npudoctor.messages import _

TWICE_APART = 2.0  # seconds between two looks: a server that is starting is bound before it listens
YOUNG = 10.0  # seconds below which a socket file may be that of a server that is starting


@dataclass(frozen=True)
class LiveServer:
    """A process whose program is a cache server. `keys` is None when its maps cannot be read."""

    pid: int
    port: Optional[int]
    spill_root: str
    keys: Optional[frozenset[int]]


@dataclass(frozen=True)
class Scene:
    """Sockets and what connect() answered, segments, logs, living servers; `opaque` are pids that show
    neither program nor arguments; `hidden` are folders that we may not look into."""

    host: Host
    sockets: tuple[SocketFile, ...]
    hidden: tuple[str, ...]
    answers: Mapping[str, tuple[Listener, ...]]
    segments: tuple[Segment, ...]
    logs: tuple[ServerLog, ...]
    servers: tuple[LiveServer, ...]
    opaque: tuple[int, ...]
    unix_paths: frozenset[str]
    now: float


def gather(host: Host) -> Scene:
    """Look at the machine; waits for the second look only when a socket file refused the first."""
    tmp = host.options.tmp
    for directory, _old in places(tmp):
        if host.disk.may_block(directory):
            raise CannotTell(
                _("{path} is on a file system that may block; it is not looked into").format(path=directory)
            )
    sockets, hidden = socket_files(tmp)
    now = host.clock.now()
    answers = _connect_twice(host, [found for found in sockets if found.entry.is_socket], now)
    servers, opaque = _servers(host)
    return Scene(
        host=host,
        sockets=tuple(sockets),
        hidden=tuple(hidden),
        answers=answers,
        segments=tuple(host.sysvipc.segments()),
        logs=tuple(read_logs(tmp)),
        servers=tuple(servers),
        opaque=tuple(opaque),
        unix_paths=host.sockets.unix_paths(),
        now=now,
    )


def _connect_twice(host: Host, sockets: list[SocketFile], now: float) -> dict[str, tuple[Listener, ...]]:
    first = {found.path: connect(host, found) for found in sockets}
    began = host.clock.steady()
    again = [
        found
        for found in sockets
        if first[found.path] is Listener.REFUSED and now - found.entry.mtime_ns / 1e9 > YOUNG
    ]
    answers: dict[str, tuple[Listener, ...]] = {path: (answer,) for path, answer in first.items()}
    if again:
        host.clock.wait_until(began + TWICE_APART)
    for found in again:
        answers[found.path] = (first[found.path], connect(host, found))
    return answers


def connect(host: Host, found: SocketFile) -> Listener:
    """What connect() to this file answers now, through its directory's descriptor."""
    try:
        with open_directory(found.directory) as (descriptor, _parents):
            return host.sockets.probe(found.name, descriptor)
    except FileNotFoundError:
        return Listener.MISSING
    except OSError:
        return Listener.UNKNOWN


def _servers(host: Host) -> tuple[list[LiveServer], list[int]]:
    servers, opaque = [], []
    for pid, process in host.processes.all().items():
        if process.gone:
            continue
        program = host.processes.program(pid)
        if program is None:
            if host.processes.now(pid) is not None:
                opaque.append(pid)
        elif program in PROGRAMS:
            servers.append(_live(host, pid))
    return servers, opaque


def _live(host: Host, pid: int) -> LiveServer:
    """Its argv is: program, spill folder (may be empty), workers, port, and more."""
    arguments = host.processes.arguments(pid) or ()
    segments = host.processes.segments(pid)
    port = arguments[3] if len(arguments) > 3 else ""
    return LiveServer(
        pid,
        int(port) if port.isdecimal() else None,
        arguments[1] if len(arguments) > 1 else "",
        None if segments is None else frozenset(segments.values()),
    )
