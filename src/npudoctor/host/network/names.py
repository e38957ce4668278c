"""Resolves host names as the system does, in a child process: a name server may not answer."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Callable

from npudoctor.core.frozen import dataclass

SECONDS = 4.0  # resolv.conf(5): the resolver waits 5 s for its first server before it asks the next
SHARE_OF_TIMEOUT = 0.4  # of the time of a check, at most: it may have to resolve a second name
# The variables that name the host where the ranks of a job meet.
RENDEZVOUS = ("MASTER_ADDR", "MS_SCHED_HOST", "CM_CHIEF_IP")

# Each name has a thread of its own: one without an answer does not delay the others. Each answer is a line,
# so that those that have come count when the time is over.
SCRIPT = r"""
import json, os, socket, sys, threading
def look(name):
    try:
        rows = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        answer = {"addresses": list(dict.fromkeys(row[4][0] for row in rows))}
    except UnicodeError: answer = {"failed": "none"}
    except ValueError: answer = {"failed": "again"}
    except OSError as error:
        none = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", -5))
        answer = {"failed": "none" if error.errno in none else "again"}
    os.write(1, (json.dumps([name, answer]) + "\n").encode())
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
    """The addresses of a name, best first. `failed`: "" or why there are none: "none" if the name has no
    address, "again" if the name servers failed, "silent" if nothing answered in time."""

    addresses: tuple[str, ...] = ()
    failed: str = ""


Ask = Callable[[Sequence[str]], Mapping[str, Resolution]]


class Names:
    """Resolves names, each once for all checks. `names_of_job`: names that will be needed anyway; they are
    resolved in parallel with the first one."""

    def __init__(self, ask: Ask, names_of_job: Iterable[str] = ()) -> None:
        self._ask = ask
        self._names_of_job = tuple(names_of_job)
        self._resolution_by_name: dict[str, Resolution] = {}
        self._lock = threading.Lock()

    def resolve(self, name: str) -> Resolution:
        """The addresses of a name by getaddrinfo(3): /etc/hosts, name servers, what nsswitch.conf has."""
        with self._lock:
            if name not in self._resolution_by_name:
                names = dict.fromkeys((name, *self._names_of_job))
                self._resolution_by_name.update(
                    self._ask([unknown for unknown in names if unknown not in self._resolution_by_name])
                )
            return self._resolution_by_name[name]


def ask_system(names: Sequence[str], seconds: float = SECONDS) -> dict[str, Resolution]:
    """Resolve names in a child process that may take so many seconds."""
    command = [sys.executable, "-I", "-S", "-c", SCRIPT]
    failure = "again"  # if the child dies before it has answered
    try:
        output = subprocess.run(
            command, input=json.dumps(names).encode(), capture_output=True, timeout=seconds, check=False,
            cwd="/",
        ).stdout  # fmt: skip
    except subprocess.TimeoutExpired as error:
        output, failure = error.stdout or b"", "silent"
    except OSError:
        output, failure = b"", "silent"
    answers = dict.fromkeys(names, Resolution(failed=failure))
    for line in output.splitlines(keepends=True):
        if line.endswith(b"\n"):  # the last one may be cut
            name, answer = json.loads(line)
            answers[name] = Resolution(tuple(answer.get("addresses", ())), answer.get("failed", ""))
    return answers
