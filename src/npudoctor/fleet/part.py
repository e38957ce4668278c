"""One node's part in `fleet pairs`: it listens, is told its peers, connects to them, says what became of it.

Lines of JSON on standard output: what it listens on, and, after a line with the peers has come, what failed.
It ends with its standard input, or after its time: nothing is left listening whatever became of the asker.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Any, Optional

from npudoctor.core.frozen import dataclass
from npudoctor.core.parsing import json_of

CONNECT_SECONDS = 3.0  # in which the kernel asks a second and a third time
AT_ONCE = 512  # connections; half of the descriptors that a process has by default
_BACKLOG = 4096  # all nodes come at the same moment
_LONGEST = 8 << 20  # bytes of the line with the peers
_ATTEMPTS = 3
_RESET = struct.pack("ii", 1, 0)
_NO_ANSWER = "no answer"


@dataclass(frozen=True)
class Peer:
    """Another node: where it is reached, what it greets with, on which ports it listens."""

    node: str
    address: str
    greeting: str
    ports: tuple[int, ...]


async def take_part(ports: Sequence[int], seconds: float, address: Optional[str]) -> None:
    """Take part until standard input ends, at most so long. `address`: where peers shall reach us."""
    part = _Part()
    try:
        await asyncio.wait_for(part.run(ports, address), seconds)
    except asyncio.TimeoutError:
        pass
    finally:
        part.close()


class _Part:
    def __init__(self) -> None:
        self._greeting = os.urandom(8).hex()  # tells us from whatever else answers under our address
        self._servers: list[asyncio.AbstractServer] = []
        self._free = asyncio.Semaphore(AT_ONCE)

    async def run(self, ports: Sequence[int], address: Optional[str]) -> None:
        held = {port: why for port in ports if (why := await self._listen(port)) is not None}
        bound = [port for port in ports if port not in held]
        _say({"bound": bound, "held": held, "greeting": self._greeting, "address": address})
        lines = await _standard_input()
        line = await lines.readline()
        if line:
            # The asker chose the names, and checked what the nodes said.
            peers = [
                Peer(node, address, greeting, tuple(ports))
                for node, address, greeting, ports in json_of(line)
            ]
            others = [peer for peer in peers if peer.greeting != self._greeting]
            _say({"failed": await self._connect_all(others)})
            await lines.read()  # until everybody has tried us

    async def _listen(self, port: int) -> Optional[str]:
        """Why this port is not free; None once we listen there, by both families where there are two."""
        for family, everywhere in ((socket.AF_INET, ""), (socket.AF_INET6, "")):
            try:
                listener = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                continue
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind((everywhere, port))
                self._servers.append(await asyncio.start_server(self._greet, sock=listener, backlog=_BACKLOG))
            except OSError as error:
                listener.close()
                if family == socket.AF_INET:
                    return os.strerror(error.errno or 0)
        return None

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._greeting.encode() + b"\n")
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(), 2 * CONNECT_SECONDS)  # who came goes first
        # Close by a reset: a port in TIME_WAIT would be missing to the job that starts next.
        connection = writer.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        writer.transport.abort()

    async def _connect_all(self, peers: Sequence[Peer]) -> dict[str, Any]:
        # Peer after peer, not port after port: one that eats everything holds up itself alone.
        rows = await asyncio.gather(*(self._reach(peer) for peer in peers))
        failed: dict[str, Any] = {}
        for peer, reasons in zip(peers, rows):
            ports = [port for port, why in zip(peer.ports, reasons) if why is not None]
            if ports:
                failed[peer.node] = {"ports": ports, "reason": next(filter(None, reasons))}
        return failed

    async def _reach(self, peer: Peer) -> list[Optional[str]]:
        """Of each of its ports, why no connection was made; None where the peer itself answered."""
        try:
            addresses = await asyncio.get_running_loop().getaddrinfo(peer.address, 0, type=socket.SOCK_STREAM)
        except OSError:
            return ["the name is not known"] * len(peer.ports)
        family, address = addresses[0][0], addresses[0][4][0]
        reasons: dict[int, Optional[str]] = {}
        left = list(peer.ports)
        for _attempt in range(_ATTEMPTS):
            asked = (self._connect(family, str(address), port, peer.greeting) for port in left)
            reasons.update(zip(left, await asyncio.gather(*asked)))
            left = [port for port, why in reasons.items() if why == _NO_ANSWER]
            # One answer of many that is missing may have come to a port that the kernel chose for us and that
            # is filtered here; the next choice is another.
            if len(left) == len(peer.ports) or not left:
                break
        return [reasons[port] for port in peer.ports]

    async def _connect(self, family: int, address: str, port: int, greeting: str) -> Optional[str]:
        async with self._free:
            with socket.socket(family, socket.SOCK_STREAM) as connection:
                connection.setblocking(False)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                return await _talk(connection, (address, port), greeting)

    def close(self) -> None:
        """Listen no more."""
        for server in self._servers:
            server.close()


async def _talk(connection: socket.socket, address: tuple[str, int], expected: str) -> Optional[str]:
    loop = asyncio.get_running_loop()
    try:
        await asyncio.wait_for(loop.sock_connect(connection, address), CONNECT_SECONDS)
        greeting = b""
        while len(greeting) < len(expected):
            part = await asyncio.wait_for(loop.sock_recv(connection, 64), CONNECT_SECONDS)
            if not part:
                break
            greeting += part
    except asyncio.TimeoutError:
        return _NO_ANSWER
    except OSError as error:
        return os.strerror(error.errno or 0)
    return None if greeting.strip() == expected.encode() else "another machine answers"


async def _standard_input() -> asyncio.StreamReader:
    lines = asyncio.StreamReader(limit=_LONGEST)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer)
    return lines


def _say(document: object) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
