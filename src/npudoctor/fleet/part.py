"""One node's part in `fleet pairs`: it listens, is told its peers, connects to them, and says what became of it.

Lines of JSON on standard output, in this order: what it listens on, and, after a line with the peers has come, what
failed. It ends with its standard input, or after its time: nothing is left listening whatever became of the asker.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from npudoctor.core.messages import strerror

AT_ONCE = 256  # connections
_LONGEST = 4 << 20  # bytes of the line with the peers


async def take_part(ports: Sequence[int], mark: str, seconds: float, connect_seconds: float) -> None:
    """Take part until standard input ends, at most so long."""
    part = _Part(mark.encode(), connect_seconds)
    try:
        await asyncio.wait_for(part.run(ports), seconds)
    except asyncio.TimeoutError:
        pass
    finally:
        part.close()


class _Part:
    def __init__(self, mark: bytes, connect_seconds: float) -> None:
        self._mark, self._seconds = mark, connect_seconds
        self._servers: list[asyncio.AbstractServer] = []
        self._free = asyncio.Semaphore(AT_ONCE)

    async def run(self, ports: Sequence[int]) -> None:
        held = {port: why for port in ports if (why := await self._listen(port)) is not None}
        _say({"bound": [port for port in ports if port not in held], "held": held})
        lines = asyncio.StreamReader(limit=_LONGEST)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer
        )
        line = await lines.readline()
        if line:
            _say({"failed": await self._connect_all(json.loads(line)["peers"])})
            await lines.read()  # until everybody has tried us

    async def _listen(self, port: int) -> Optional[str]:
        try:
            self._servers.append(await asyncio.start_server(self._greet, None, port))
        except OSError as error:
            return strerror(error.errno or 0)
        return None

    async def _greet(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._mark + b"\n")
        writer.close()

    async def _connect_all(self, peers: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        attempts = [(node, port) for node, ports in peers.items() for port in ports]
        reasons = await asyncio.gather(*(self._connect(node, port) for node, port in attempts))
        failed: dict[str, Any] = {}
        for (node, port), why in zip(attempts, reasons):
            if why is not None:
                failed.setdefault(node, {"ports": [], "reason": why})["ports"].append(port)
        return failed

    async def _connect(self, node: str, port: int) -> Optional[str]:
        """Why no connection to this port was made; None where the peer itself answered."""
        async with self._free:
            writer = None
            try:
                reader, writer = await asyncio.wait_for(asyncio.open_connection(node, port), self._seconds)
                greeting = await asyncio.wait_for(reader.readline(), self._seconds)
            except asyncio.TimeoutError:
                return "no answer"
            except OSError as error:
                return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            finally:
                if writer is not None:
                    writer.close()
        return None if greeting.strip() == self._mark else "something else answers there"

    def close(self) -> None:
        """Listen no more."""
        for server in self._servers:
            server.close()


def _say(document: object) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
