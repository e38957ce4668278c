"""The part of one node in `fleet pairs`: it listens, receives its peers, connects to them, reports failures.

It prints two lines of JSON: the ports on which it listens and, after a line with the peers was read, what
failed. It ends when its standard input does, or after its time: no port stays open when the caller is gone.
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

# Linux repeats a SYN after 1 s and after 3 s (RFC 6298): one lost packet fails no connection.
CONNECT_SECONDS = 3.0
# Connections at once: half of the usual soft limit of 1024 descriptors; the other half is for incoming ones.
AT_ONCE = 512
# All nodes connect at the same moment; the kernel caps this at net.core.somaxconn (4096 since Linux 5.4).
_BACKLOG = 4096
_LONGEST = 8 << 20  # bytes of the line with the peers
# Of a port whose answer is missing; the source port differs each time.
_ATTEMPTS = 3
# struct linger {on, 0 s}: close() sends RST and leaves no TIME_WAIT (socket(7), SO_LINGER).
_RESET = struct.pack("ii", 1, 0)
_NO_ANSWER = "no answer"


@dataclass(frozen=True)
class PeerNode:
    """Another node: its address, the greeting that proves its identity, the ports on which it listens."""

    node: str
    address: str
    greeting: str
    ports: tuple[int, ...]


async def take_part(ports: Sequence[int], seconds: float, address: Optional[str]) -> None:
    """Take part until standard input ends, for at most `seconds`.

    `address`: where peers reach this node; None for its node name.
    """
    part = _PairsParticipant()
    try:
        await asyncio.wait_for(part.run(ports, address), seconds)
    except asyncio.TimeoutError:
        pass
    finally:
        part.close()


class _PairsParticipant:
    def __init__(self) -> None:
        # Proves that a peer talked to this process and not to another program or machine at the same address.
        self._greeting = os.urandom(8).hex()
        self._servers: list[asyncio.AbstractServer] = []
        self._free = asyncio.Semaphore(AT_ONCE)

    async def run(self, ports: Sequence[int], address: Optional[str]) -> None:
        reason_by_port = {port: why for port in ports if (why := await self._listen(port)) is not None}
        bound_ports = [port for port in ports if port not in reason_by_port]
        _write_line(
            {"bound": bound_ports, "held": reason_by_port, "greeting": self._greeting, "address": address}
        )
        lines = await _open_standard_input()
        line = await lines.readline()
        if line:
            # Trusted: the caller chose the names, and checked what the nodes reported.
            participants = [
                PeerNode(node, address, greeting, tuple(ports))
                for node, address, greeting, ports in json_of(line)
            ]
            peers = [peer for peer in participants if peer.greeting != self._greeting]
            _write_line({"failed": await self._connect_all(peers)})
            await lines.read()  # until everybody has tried us

    async def _listen(self, port: int) -> Optional[str]:
        """Listen on a port by IPv4 and IPv6; the reason when the port is not free, None on success."""
        for family, any_address in ((socket.AF_INET, ""), (socket.AF_INET6, "")):
            try:
                listener = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                continue
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    # Else :: also binds 0.0.0.0 (net.ipv6.bindv6only=0) and collides with the listener of the
                    # line above.
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind((any_address, port))
                self._servers.append(await asyncio.start_server(self._greet, sock=listener, backlog=_BACKLOG))
            except OSError as error:
                listener.close()
                # An IPv6 port that cannot be bound is not a failure: peers connect by the address that was
                # chosen.
                if family == socket.AF_INET:
                    return os.strerror(error.errno or 0)
        return None

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._greeting.encode() + b"\n")
        # The peer may be gone, or may never close.
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(reader.read(), 2 * CONNECT_SECONDS)  # the peer closes first
        # Close by a reset: a port in TIME_WAIT could not be bound by the job that starts next.
        connection = writer.get_extra_info("socket")
        if connection is not None:
            # The peer may have reset the connection already.
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        writer.transport.abort()

    async def _connect_all(self, peers: Sequence[PeerNode]) -> dict[str, Any]:
        # One task per peer: a peer that drops all packets delays its own ports only.
        reasons_by_peer = await asyncio.gather(*(self._reach(peer) for peer in peers))
        failed: dict[str, Any] = {}
        for peer, reasons in zip(peers, reasons_by_peer):
            ports = [port for port, why in zip(peer.ports, reasons) if why is not None]
            if ports:
                failed[peer.node] = {"ports": ports, "reason": next(filter(None, reasons))}
        return failed

    async def _reach(self, peer: PeerNode) -> list[Optional[str]]:
        """For each port of the peer, why the connection failed; None where the peer itself answered."""
        try:
            addresses = await asyncio.get_running_loop().getaddrinfo(peer.address, 0, type=socket.SOCK_STREAM)
        except OSError:
            return ["the name is not known"] * len(peer.ports)
        family, address = addresses[0][0], addresses[0][4][0]
        reason_by_port: dict[int, Optional[str]] = {}
        pending_ports = list(peer.ports)
        for _attempt in range(_ATTEMPTS):
            attempts = (self._connect(family, str(address), port, peer.greeting) for port in pending_ports)
            reason_by_port.update(zip(pending_ports, await asyncio.gather(*attempts)))
            pending_ports = [port for port, why in reason_by_port.items() if why == _NO_ANSWER]
            # A single missing answer may be due to the ephemeral source port that the kernel chose: a filter
            # here may drop the reply to it. The next attempt gets another port. When no port answers at all,
            # trying again would not help.
            if len(pending_ports) == len(peer.ports) or not pending_ports:
                break
        return [reason_by_port[port] for port in peer.ports]

    async def _connect(self, family: int, address: str, port: int, greeting: str) -> Optional[str]:
        async with self._free:
            with socket.socket(family, socket.SOCK_STREAM) as connection:
                connection.setblocking(False)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                return await _check_greeting(connection, (address, port), greeting)

    def close(self) -> None:
        """Stop listening."""
        for server in self._servers:
            server.close()


async def _check_greeting(
    connection: socket.socket, address: tuple[str, int], expected: str
) -> Optional[str]:
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


async def _open_standard_input() -> asyncio.StreamReader:
    lines = asyncio.StreamReader(limit=_LONGEST)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer)
    return lines


def _write_line(document: object) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
