"""What host names mean here, and whether that can be."""

import contextlib
import errno
import os
import time
from typing import Any, Dict, List, Tuple

from npudoctor.trial.parts.attempts import QUESTIONS

SLOW = 1.0  # seconds
DOUBT = 1.0  # seconds for names that nobody should have


class Lookups:
    """What names mean, all asked side by side; a resolver may wait for a server that is not there."""

    def __init__(self, names: List[str], wait: float) -> None:
        self._answers = {}  # type: Dict[str, Any]
        self._threads = {}  # type: Dict[str, Any]
        self._until = time.monotonic() + wait
        import threading

        for name in names:
            thread = threading.Thread(target=self._look, args=(name,), daemon=True)
            try:
                thread.start()
            except RuntimeError:
                self._look(name)  # no thread to be had: then in its turn
            else:
                self._threads[name] = thread

    def _look(self, name: str, again: bool = False) -> None:
        import socket

        since = time.monotonic()
        try:
            found = socket.getaddrinfo(name, 0, 0, socket.SOCK_STREAM)
            answer = [(entry[0], entry[4]) for entry in found]  # type: Any
        except (OSError, UnicodeError) as error:
            answer = error
        took = time.monotonic() - since
        if not again or took < self._answers[name][1]:
            self._answers[name] = answer, took
        if took > SLOW and not again and not isinstance(answer, Exception):
            self._look(name, again=True)  # what is slow twice was not the machine's other work

    def found(self, name: str, facts: Dict[str, Any]) -> List[Tuple[int, Any]]:
        """The addresses of a name, in the order in which they are tried; raises what the resolver says."""
        thread = self._threads.get(name)
        if thread is not None:
            thread.join(max(0.0, self._until - time.monotonic()))
        if name not in self._answers:
            facts["took"] = QUESTIONS["wait"]
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        answer, took = self._answers[name]
        facts["took"] = round(took, 3)
        if isinstance(answer, Exception):
            raise answer
        facts["addresses"] = [address[0] for _family, address in answer]
        return list(answer)


def ours(found: List[Tuple[int, Any]]) -> List[Tuple[int, Any]]:
    """Those that are addresses of this machine: a socket can be bound to them, as Gloo tells it too."""
    import socket

    bound = []
    for family, address in found:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.bind((address[0], 0, *address[2:]))
            bound.append((family, address))
    return bound


def of_this_machine(found: List[Tuple[int, Any]]) -> List[Tuple[int, Any]]:
    """Also a loopback address that no interface has: it is this machine's by definition."""
    here = ours(found)
    if not here and found and all(is_loopback(address[0]) for _family, address in found):
        return found
    return here


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def doubts(place: str, found: List[Tuple[int, Any]]) -> Dict[str, Any]:
    """Whether the answer for a name means nothing: a name that nobody has gets the same one, or without a
    domain put behind it the name means this machine."""
    if any(place == address[0] for _family, address in found):
        return {}
    name = "npudoctor-" + os.urandom(6).hex()
    beside = ".".join([name, *place.split(".")[1:]])  # in whatever domains are searched
    nowhere, alone = name + ".invalid.", place.rstrip(".") + "."  # RFC 6761 keeps that domain empty
    lookups = Lookups([beside, nowhere, alone], DOUBT)
    told = {address[0] for _family, address in found}
    facts: Dict[str, Any] = {"stranger": beside}
    for key, other in (("beside", beside), ("nowhere", nowhere)):
        with contextlib.suppress(OSError, UnicodeError):
            facts[key] = bool(told & {address[0] for _family, address in lookups.found(other, {})})
    with contextlib.suppress(OSError, UnicodeError):
        facts["alone"] = [address[0] for _family, address in ours(lookups.found(alone, {}))]
    return facts
