"""Asks the system what a host name means, in a child process: a name server may not answer."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Callable

from npudoctor.frozen import dataclass

SECONDS = 4.0  # a resolver asks its first server for 5

SCRIPT = r"""
import json, socket, sys
try:
    found = socket.getaddrinfo(sys.argv[1], None, type=socket.SOCK_STREAM)
    print(json.dumps({"addresses": list(dict.fromkeys(one[4][0] for one in found))}))
except UnicodeError: print(json.dumps({"failed": "none"}))
except OSError as error:
    none = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", -5))
    print(json.dumps({"failed": "none" if error.errno in none else "again"}))
"""


@dataclass(frozen=True)
class Meaning:
    """The addresses of a name, best first. `failed`: "none" where it has none, "again" where the name
    servers could not say, "silent" where nothing answered in time."""

    addresses: tuple[str, ...] = ()
    failed: str = ""


class Names:
    """What names mean here; each is asked once."""

    def __init__(self, ask: Callable[[str], Meaning]) -> None:
        self._ask = ask
        self._known: dict[str, Meaning] = {}

    def meaning(self, name: str) -> Meaning:
        """As getaddrinfo() says: /etc/hosts, name servers, whatever nsswitch.conf names."""
        if name not in self._known:
            self._known[name] = self._ask(name)
        return self._known[name]


def ask_system(name: str) -> Meaning:
    """What a child of ours is told within the deadline."""
    command = [sys.executable, "-I", "-S", "-c", SCRIPT, name]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False, cwd="/"
        )
        told = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired):
        return Meaning(failed="silent")
    except ValueError:  # a NUL in the name, or a child that died
        return Meaning(failed="again")
    return Meaning(tuple(told.get("addresses", ())), told.get("failed", ""))
