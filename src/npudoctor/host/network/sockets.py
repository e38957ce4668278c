"""Reads TCP and unix sockets from /proc/net, and probes socket files by connect(2).

Not by psutil.net_connections: it has neither the uid nor the inode of a socket, which lead to its process.
"""

from __future__ import annotations

import enum
import errno
import os
from functools import cache
from typing import Callable, Optional

from npudoctor.core.descriptors import wait_until_ready
from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.lazy import pattern
from npudoctor.core.messages import _, strerror
from npudoctor.host.fs.files import Disk

CONNECT_SECONDS = 1.0
TCP_LISTEN = "0A"  # the state in /proc/net/tcp, in hex

_SLASHES = pattern(r"//+")


class Listener(enum.Enum):
    """The result of connect() to a socket file. Only REFUSED may ever count as "nobody listens"."""

    ALIVE = "alive"
    REFUSED = "refused"
    MISSING = "missing"
    UNKNOWN = "unknown"


_ALIVE = (errno.EAGAIN, errno.EPROTOTYPE)  # a full backlog; a datagram socket


@dataclass(frozen=True)
class TcpSocket:
    """A TCP socket that has a local port: it listens, or it is one end of a connection.

    `address` is the text of an IP address, `uid` the socket's owner, `inode` its number in /proc/PID/fd.
    """

    address: str
    port: int
    uid: int
    inode: int
    is_listening: bool = True


def collapse_slashes(path: str) -> str:
    """Collapse runs of slashes in a path: /proc/net/unix shows a MindSpore cache server's with three."""
    return _SLASHES.sub("/", path)


def parse_unix(text: str) -> frozenset[str]:
    """The paths in /proc/net/unix with slashes collapsed, whatever the state of their sockets."""
    paths: set[str] = set()
    for line in text.split("\n")[1:]:  # not splitlines: a path may hold what that takes for a line's end
        fields = line.split(None, 7)
        # Sockets without a path have only seven columns; a path may contain blanks.
        if len(fields) == 8:
            paths.add(collapse_slashes(fields[7]))
    return frozenset(paths)


def parse_tcp(text: str) -> list[TcpSocket]:
    """The sockets in /proc/net/tcp or tcp6, without those of no process (inode 0, as in TIME_WAIT), which
    end by themselves."""
    sockets = []
    for line in text.split("\n")[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[9] != "0":
            address, _colon, port = fields[1].partition(":")
            listening = fields[3] == TCP_LISTEN
            sockets.append(
                TcpSocket(_parse_address(address), int(port, 16), int(fields[7]), int(fields[9]), listening)
            )
    return sockets


@cache
def _parse_address(text: str) -> str:
    """Parse an address of /proc/net/tcp: words of 32 bits in hex, each printed in the host's byte order."""
    import socket  # not above: most runs meet no socket
    import struct

    words = [int(text[i : i + 8], 16) for i in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, packed)


def probe(path: str, directory: Optional[int] = None) -> Listener:
    """Probe a socket file by connect(2); `directory`: a descriptor that `path` is relative to.

    Relative to a descriptor nobody can swap a parent, and the path fits into the 108 bytes of sun_path.
    """
    import socket

    if directory is not None:
        path = f"/proc/self/fd/{directory}/{path}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.setblocking(False)
            number = client.connect_ex(os.fsencode(path))
            if number == errno.EINPROGRESS:
                if wait_until_ready(client.fileno(), CONNECT_SECONDS, to_write=True):
                    number = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                else:
                    number = errno.ETIMEDOUT
    except OSError:
        return Listener.UNKNOWN  # the path is too long for the address, or we are out of descriptors
    return listener_from_errno(number)


def listener_from_errno(number: int) -> Listener:
    """What an errno of connect(2) says of the listener; 0 is success."""
    if number == 0 or number in _ALIVE:
        return Listener.ALIVE
    if number == errno.ECONNREFUSED:
        return Listener.REFUSED
    if number == errno.ENOENT:
        return Listener.MISSING
    return Listener.UNKNOWN


class Sockets:
    """The sockets of our network namespace, read once; CannotTell if /proc/net cannot be read."""

    def __init__(
        self, disk: Disk, addresses: Callable[[], frozenset[str]], prober: Callable[..., Listener] = probe
    ) -> None:
        self._disk = disk
        self._addresses = addresses
        self.probe = prober
        self._tcp: Optional[list[TcpSocket]] = None
        self._unix: Optional[frozenset[str]] = None

    def bound_sockets(self) -> list[TcpSocket]:
        """All TCP sockets with a local port: one end of a connection also occupies its port."""
        if self._tcp is None:
            self._tcp = parse_tcp(self._read_table("tcp")) + parse_tcp(
                self._read_table("tcp6", optional=True)
            )
        return self._tcp

    def listening_sockets(self) -> list[TcpSocket]:
        """The TCP sockets that listen."""
        return [socket for socket in self.bound_sockets() if socket.is_listening]

    def unix_paths(self) -> frozenset[str]:
        """The paths of all unix sockets, slashes collapsed."""
        if self._unix is None:
            self._unix = parse_unix(self._read_table("unix"))
        return self._unix

    def own_addresses(self) -> frozenset[str]:
        """The addresses of this machine's interfaces, as text."""
        return self._addresses()

    def _read_table(self, name: str, optional: bool = False) -> str:
        try:
            try:
                content = self._disk.read(f"/proc/net/{name}", 64 << 20)
            except FileNotFoundError:  # /proc/net is a link to self/net, which subset=pid does not show
                content = self._disk.read(f"/proc/self/net/{name}", 64 << 20)
            return content.decode("utf-8", "surrogateescape")
        except OSError as error:
            if optional and error.errno == errno.ENOENT:
                return ""  # a kernel without IPv6
            why = strerror(error.errno)
            raise CannotTell(_("/proc/net/{name} cannot be read: {why}", name=name, why=why)) from error
