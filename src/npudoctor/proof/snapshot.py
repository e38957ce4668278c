"""All that the rules on cache servers need to know of the machine, gathered in one go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Optional

from npudoctor.core.frozen import dataclass, field
from npudoctor.core.messages import _
from npudoctor.facts.leftovers.cache_log import ServerLog, log_places, read_logs
from npudoctor.facts.leftovers.cache_server import (
    PROGRAMS,
    FoundSockets,
    SocketFile,
    find_places,
    socket_files,
)
from npudoctor.host import CannotTell, Host
from npudoctor.host.fs.walk import open_directory
from npudoctor.host.network.sockets import Listener
from npudoctor.host.process.sysvipc import Segment
from npudoctor.proof.users import find_hidden, users_of_process

TWICE_APART = 2.0  # seconds between two looks: a server that is starting is bound before it listens
YOUNG = 10.0  # seconds below which a socket file may be that of a server that is starting


@dataclass(frozen=True)
class LiveServer:
    """A process whose program is a cache server. `users`: uids; `port`: None when unknown; `keys`: of its
    segments, None when its maps cannot be read.
    """

    pid: int
    users: frozenset[int]
    port: Optional[int]
    keys: Optional[frozenset[int]]


@dataclass(frozen=True)
class LivingServers:
    """The cache servers that run; `opaque`: pids of processes that show neither program nor arguments."""

    servers: tuple[LiveServer, ...]
    opaque: tuple[int, ...]


@dataclass(frozen=True)
class ServerSnapshot:
    """Sockets and what connect() answered, segments, logs, living servers. `tmp` is free of links;
    `hidden` and `unseen` are where we could not look;
    `passed_sockets` and `passed_folders` count by owner what is too much to be judged."""

    host: Host
    tmp: str
    sockets: tuple[SocketFile, ...]
    hidden: tuple[str, ...]
    unseen: tuple[tuple[str, str], ...]
    answers: Mapping[str, tuple[Listener, ...]]
    segments: tuple[Segment, ...]
    logs: tuple[ServerLog, ...]
    living: LivingServers
    listed: frozenset[str]
    now: float
    passed_sockets: Mapping[int, int] = field(default_factory=dict)
    passed_folders: Mapping[int, int] = field(default_factory=dict)

    def why_crowded(self, uid: int) -> str:
        """Why the absence of something proves nothing for this owner, as not all of it was looked at; "" when
        all was.

        What root's own folders hold too much of may be anybody's.
        """
        if any(
            owner in passed for owner in (0, uid) for passed in (self.passed_sockets, self.passed_folders)
        ):
            return _("its owner has too many sockets and folders in {tmp} to check them all", tmp=self.tmp)
        return ""


def take_snapshot(host: Host) -> ServerSnapshot:
    """Read the machine; it waits for the second look only when a socket refused the first connect()."""
    tmp = host.files.real(host.options.tmp) or host.options.tmp
    where = find_places(tmp)
    for folder in (*(path for path, _old in where.directories), *log_places(tmp, where)):
        # A dead NFS server below /tmp/mindspore would hold us for ever.
        if any(host.disk.may_block(path) for path in {folder, _resolve_folder(host, folder) or folder}):
            raise CannotTell(_("{path} is on a file system that may block and is not read", path=folder))
    segments = tuple(host.sysvipc.segments())
    sockets = socket_files(tmp, where, {segment.key for segment in segments})
    now = host.clock.now()
    socket_candidates = [socket_file for socket_file in sockets.sockets if socket_file.entry.is_socket]
    # Only sockets: connect() to any other file answers ECONNREFUSED, too.
    first = {socket_file.path: probe_socket(host, socket_file) for socket_file in socket_candidates}
    began = host.clock.monotonic()
    again = [
        socket_file
        for socket_file in socket_candidates
        if first[socket_file.path] is Listener.REFUSED and now - socket_file.entry.mtime_ns / 1e9 > YOUNG
    ]
    answers: dict[str, tuple[Listener, ...]] = {path: (answer,) for path, answer in first.items()}
    if again:
        host.clock.wait_until(began + TWICE_APART)
    for socket_file in again:
        answers[socket_file.path] = (first[socket_file.path], probe_socket(host, socket_file))
    return ServerSnapshot(
        host=host,
        tmp=tmp,
        sockets=sockets.sockets,
        hidden=sockets.hidden,
        unseen=sockets.unseen,
        answers=answers,
        segments=segments,
        logs=tuple(read_logs(tmp, where)),
        living=living_servers(host),
        listed=listed_sockets(host, sockets),
        now=now,
        passed_sockets=sockets.passed,
        passed_folders=where.passed,
    )


def probe_socket(host: Host, socket_file: SocketFile) -> Listener:
    """The result of connect() to this socket file, through the descriptor of its directory."""
    try:
        with open_directory(socket_file.directory) as (descriptor, _parents):
            return host.sockets.probe(socket_file.name, descriptor)
    except FileNotFoundError:
        return Listener.MISSING
    except OSError:
        # A closed folder, or a link in its place: nothing is known of the listener.
        return Listener.UNKNOWN


def listed_sockets(host: Host, sockets: FoundSockets) -> frozenset[str]:
    """The socket files that /proc/net/unix lists, by whatever path their servers bound them."""
    paths = {path for socket_file in sockets.sockets for path in (socket_file.path, socket_file.original)}
    # By the last part first: resolving thousands of folders would take long.
    by_name = _paths_by_name(host.sockets.unix_paths()) if paths else {}
    return frozenset(
        path for path in paths if _is_path_listed(host, path, by_name.get(path.rpartition("/")[2], ()))
    )


def is_listed(host: Host, path: str) -> bool:
    """Return whether /proc/net/unix lists this path, free of links, under any name that leads to it."""
    return _is_path_listed(
        host, path, _paths_by_name(host.sockets.unix_paths()).get(path.rpartition("/")[2], ())
    )


def _paths_by_name(paths: Iterable[str]) -> dict[str, list[str]]:
    by_name: dict[str, list[str]] = {}
    for path in paths:
        # @ is an abstract name, which is in no folder.
        if not path.startswith("@"):
            by_name.setdefault(path.rpartition("/")[2], []).append(path)
    return by_name


def _is_path_listed(host: Host, path: str, listed_paths: Iterable[str]) -> bool:
    folder = path.rpartition("/")[0]
    return any(
        other == path or _resolve_folder(host, other.rpartition("/")[0]) in (folder, None)
        for other in listed_paths
    )


def _resolve_folder(host: Host, folder: str) -> Optional[str]:
    """A folder without links; None when it cannot be resolved, "" when it does not exist."""
    try:
        return host.files.real(folder) or "" if folder.startswith("/") else None
    except CannotTell:
        return None


def living_servers(host: Host) -> LivingServers:
    """The cache servers among the processes, and the processes that could be some for all we can see."""
    servers, opaque = [], list(find_hidden(host))
    for pid, process in host.processes.by_pid().items():
        if process.has_exited:
            continue
        program = host.processes.program(pid)
        if program is None:
            if host.processes.still_runs(pid):
                opaque.append(pid)
        elif program in PROGRAMS:
            # Its argv is: program, spill folder (may be empty), workers, port, and more.
            arguments = host.processes.arguments(process.pid) or ()
            # By its maps, which name the key of each segment: /SYSV61...
            segments = host.processes.segments(process.pid)
            port = arguments[3] if len(arguments) > 3 else ""
            servers.append(
                LiveServer(
                    process.pid,
                    users_of_process(host, process),
                    int(port) if port.isdecimal() and len(port) <= 5 else None,
                    None if segments is None else frozenset(segments.values()),
                )
            )
    return LivingServers(tuple(servers), tuple(opaque))
