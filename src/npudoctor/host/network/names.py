"""Asks the system what host names mean, in a child process: a name server may not answer."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Callable

from npudoctor.core.frozen import dataclass

SECONDS = 4.0  # a resolver asks its first server for 5
SHARE = 0.4  # of the time of a check, at most: there may be a second question
# The variables that name where the ranks of a job meet.
RENDEZVOUS = ("MASTER_ADDR", "MS_SCHED_HOST", "CM_CHIEF_IP")

# Each name has a thread of its own: one that nobody answers holds no other up. The answers come line by line,
# so that those that are there count when the time is over.
SCRIPT = r"""
import json, os, socket, sys, threading
def look(name):
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        told = {"addresses": list(dict.fromkeys(one[4][0] for one in found))}
    except UnicodeError: told = {"failed": "none"}
    except ValueError: told = {"failed": "again"}
    except OSError as error:
        none = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", -5))
        told = {"failed": "none" if error.errno in none else "again"}
    os.write(1, (json.dumps([name, told]) + "\n").encode())
def work():
    while names:
        try: name = names.pop()
        except IndexError: return
        look(name)
names = json.load(sys.stdin)[::-1]
workers = [threading.Thread(target=work, daemon=True) for _ in names[:64]]
for worker in workers: worker.start()
for worker in workers: worker.join()
"""


@dataclass(frozen=True)
class Resolution:
    """The addresses of a name, best first. `failed`: "none" where it has none, "again" where the name
    servers could not say, "silent" where nothing answered in time."""

    addresses: tuple[str, ...] = ()
    failed: str = ""


Ask = Callable[[Sequence[str]], Mapping[str, Resolution]]


class Names:
    """What names mean here; each is asked once, by whichever check. `together`: those that will be asked for
    anyway, which are asked with the first one, side by side."""

    def __init__(self, ask: Ask, together: Iterable[str] = ()) -> None:
        self._ask = ask
        self._together = tuple(together)
        self._known: dict[str, Resolution] = {}
        self._lock = threading.Lock()

    def meaning(self, name: str) -> Resolution:
        """As getaddrinfo() says: /etc/hosts, name servers, whatever nsswitch.conf names."""
        with self._lock:
            if name not in self._known:
                names = dict.fromkeys((name, *self._together))
                self._known.update(self._ask([unknown for unknown in names if unknown not in self._known]))
            return self._known[name]


def ask_system(names: Sequence[str], seconds: float = SECONDS) -> dict[str, Resolution]:
    """What a child of ours is told of each within the deadline."""
    command = [sys.executable, "-I", "-S", "-c", SCRIPT]
    failed = "again"  # a child that died
    try:
        output = subprocess.run(
            command, input=json.dumps(names).encode(), capture_output=True, timeout=seconds, check=False,
            cwd="/",
        ).stdout  # fmt: skip
    except subprocess.TimeoutExpired as error:
        output, failed = error.stdout or b"", "silent"
    except OSError:
        output, failed = b"", "silent"
    answers = dict.fromkeys(names, Resolution(failed=failed))
    for line in output.splitlines(keepends=True):
        if line.endswith(b"\n"):  # the last one may be cut
            name, answer = json.loads(line)
            answers[name] = Resolution(tuple(answer.get("addresses", ())), answer.get("failed", ""))
    return answers
