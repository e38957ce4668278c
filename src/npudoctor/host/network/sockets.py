"""Unix and TCP sockets: who listens, and what a connect() to a socket file answers.

Not psutil.net_connections: it tells neither the uid nor the inode of a socket, by which its user is found.
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
LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp

_SLASHES = pattern(r"//+")


class Listener(enum.Enum):
    """What connect() said of a socket file. Only REFUSED may ever count as "nobody listens"."""

    ALIVE = "alive"
    REFUSED = "refused"
    MISSING = "missing"
    UNKNOWN = "unknown"


_ALIVE = (errno.EAGAIN, errno.EPROTOTYPE)  # a full backlog; a datagram socket


@dataclass(frozen=True)
class TcpSocket:
    """A TCP socket that has a local port: it listens, or it is one end of a connection.

    `address` is the text of an IP address; `uid` is the socket's owner.
    """

    address: str
    port: int
    uid: int
    inode: int
    listening: bool = True


def collapse(path: str) -> str:
    """A path with runs of slashes made one: /proc/net/unix shows a cache server's with three."""
    return _SLASHES.sub("/", path)


def parse_unix(text: str) -> frozenset[str]:
    """The collapsed paths of /proc/net/unix, whatever their sockets' state."""
    paths: set[str] = set()
    for line in text.split("\n")[1:]:  # not splitlines: a path may hold what that takes for a line's end
        fields = line.split(None, 7)
        if len(fields) == 8:
            paths.add(collapse(fields[7]))
    return frozenset(paths)


def parse_tcp(text: str) -> list[TcpSocket]:
    """The sockets of /proc/net/tcp or tcp6; those that no process has (inode 0) pass by themselves."""
    sockets = []
    for line in text.split("\n")[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[9] != "0":
            address, _colon, port = fields[1].partition(":")
            listening = fields[3] == LISTEN
            sockets.append(
                TcpSocket(_address(address), int(port, 16), int(fields[7]), int(fields[9]), listening)
            )
    return sockets


@cache
def _address(text: str) -> str:
    """The kernel prints addresses as words in host order."""
    import socket  # not above: most runs meet no socket
    import struct

    words = [int(text[i : i + 8], 16) for i in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, packed)


def probe(path: str, directory: Optional[int] = None) -> Listener:
    """connect() to a socket file, without waiting; `directory` is a descriptor that `path` is relative to.

    Through the descriptor nobody can swap a parent, and no path is too long for the address.
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
    return answer_of(number)


def answer_of(number: int) -> Listener:
    """What an errno of connect() means, 0 being success."""
    if number == 0 or number in _ALIVE:
        return Listener.ALIVE
    if number == errno.ECONNREFUSED:
        return Listener.REFUSED
    if number == errno.ENOENT:
        return Listener.MISSING
    return Listener.UNKNOWN


class Sockets:
    """The sockets of our network namespace, read once."""

    def __init__(
        self, disk: Disk, addresses: Callable[[], frozenset[str]], prober: Callable[..., Listener] = probe
    ) -> None:
        self._disk = disk
        self._addresses = addresses
        self.probe = prober
        self._tcp: Optional[list[TcpSocket]] = None
        self._unix: Optional[frozenset[str]] = None

    def bound(self) -> list[TcpSocket]:
        """All TCP sockets with a local port: a connection's end keeps others off its port too."""
        if self._tcp is None:
            self._tcp = parse_tcp(self._table("tcp")) + parse_tcp(self._table("tcp6", optional=True))
        return self._tcp

    def listening(self) -> list[TcpSocket]:
        """Those of them that listen."""
        return [socket for socket in self.bound() if socket.listening]

    def unix_paths(self) -> frozenset[str]:
        """The paths of all unix sockets, slashes collapsed."""
        if self._unix is None:
            self._unix = parse_unix(self._table("unix"))
        return self._unix

    def own_addresses(self) -> frozenset[str]:
        """The addresses of this machine's interfaces, as text."""
        return self._addresses()

    def _table(self, name: str, optional: bool = False) -> str:
        try:
            try:
                content = self._disk.read(f"/proc/net/{name}", 64 << 20)
            except FileNotFoundError:  # what the link of that name leads to: with subset=pid there is no link
                content = self._disk.read(f"/proc/self/net/{name}", 64 << 20)
            return content.decode("utf-8", "surrogateescape")
        except OSError as error:
            if optional and error.errno == errno.ENOENT:
                return ""  # a kernel without IPv6
            why = strerror(error.errno)
            raise CannotTell(_("/proc/net/{name} cannot be read: {why}", name=name, why=why)) from error
