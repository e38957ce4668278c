"""What host names mean here, and whether that can be."""

import contextlib
import errno
import os
import time
from typing import Any, Dict, List, Tuple

from npudoctor.trial.parts.attempts import QUESTIONS

# glibc's resolver waits 5 s for a server (resolv.conf(5), timeout).
SLOW = 1.0  # seconds
DOUBT = 1.0  # seconds for names that nobody should have


class Lookups:
    """Resolves names side by side, in threads; a resolver may wait for a server that is not there."""

    def __init__(self, names: List[str], wait: float) -> None:
        self._answers = {}  # type: Dict[str, Any]
        self._threads = {}  # type: Dict[str, Any]
        self._until = time.monotonic() + wait
        import threading

        for name in names:
            thread = threading.Thread(target=self._resolve, args=(name,), daemon=True)
            try:
                thread.start()
            except RuntimeError:
                self._resolve(name)  # no thread to be had: then in its turn
            else:
                self._threads[name] = thread

    def _resolve(self, name: str, again: bool = False) -> None:
        import socket

        since = time.monotonic()
        try:
            entries = socket.getaddrinfo(name, 0, 0, socket.SOCK_STREAM)
            answer = [(entry[0], entry[4]) for entry in entries]  # type: Any
        # UnicodeError: a label that is empty or longer than 63 characters.
        except (OSError, UnicodeError) as error:
            answer = error
        took = time.monotonic() - since
        # The quicker of two answers: the first may have started a cache or a connection.
        if not again or took < self._answers[name][1]:
            self._answers[name] = answer, took
        if took > SLOW and not again and not isinstance(answer, Exception):
            self._resolve(name, again=True)  # what is slow twice was not the machine's other work

    def addresses_of(self, name: str, facts: Dict[str, Any]) -> List[Tuple[int, Any]]:
        """The addresses of a name, as (family, socket address), in the order in which they are tried; raises
        what the resolver raised.
        """
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


def select_bindable(addresses: List[Tuple[int, Any]]) -> List[Tuple[int, Any]]:
    """The addresses of this machine among these: a socket can be bound to them, as Gloo finds out, too."""
    import socket

    bound = []
    for family, address in addresses:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as sock:
            # EADDRNOTAVAIL for what no interface of this machine has (bind(2)).
            sock.bind((address[0], 0, *address[2:]))
            bound.append((family, address))
    return bound


def select_local(addresses: List[Tuple[int, Any]]) -> List[Tuple[int, Any]]:
    """The same with a loopback address that no interface has: it is this machine's by definition."""
    here = select_bindable(addresses)
    if not here and addresses and all(is_loopback(address[0]) for _family, address in addresses):
        return addresses
    return here


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def find_doubts(place: str, addresses: List[Tuple[int, Any]]) -> Dict[str, Any]:
    """Facts that say whether the answer for a name means nothing: a name that nobody has gets the same
    answer, or without a search domain the name means this machine.
    """
    # An address was given, and no name.
    if any(place == address[0] for _family, address in addresses):
        return {}
    name = "npudoctor-" + os.urandom(6).hex()
    beside = ".".join([name, *place.split(".")[1:]])  # in whatever domains are searched
    nowhere, alone = name + ".invalid.", place.rstrip(".") + "."  # RFC 6761 keeps that domain empty
    lookups = Lookups([beside, nowhere, alone], DOUBT)
    own_addresses = {address[0] for _family, address in addresses}
    facts: Dict[str, Any] = {"stranger": beside}
    for key, other in (("beside", beside), ("nowhere", nowhere)):
        with contextlib.suppress(OSError, UnicodeError):
            facts[key] = bool(
                own_addresses & {address[0] for _family, address in lookups.addresses_of(other, {})}
            )
    with contextlib.suppress(OSError, UnicodeError):
        facts["alone"] = [address[0] for _family, address in select_bindable(lookups.addresses_of(alone, {}))]
    return facts
