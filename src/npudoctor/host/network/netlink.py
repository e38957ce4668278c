"""Asks the kernel about links, addresses and routes of our network namespace: rtnetlink, read only.

Not /sys/class/net: that is the namespace in which sysfs was mounted, which `ip netns` and `nsenter` leave.
Not psutil: it tells neither index, operstate, kind and bond of an interface, nor the scope of an address and
whether it is still being checked, nor any route; MTU and speed, which it tells, it is asked (`interfaces`).
pyroute2 takes 120 ms to import.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _, strerror

GET_LINK, GET_ADDRESS, GET_ROUTE = 18, 22, 26
SECONDS = 2.0  # for one answer: the kernel has it at once

_ERROR, _DONE = 2, 3
_REQUEST, _DUMP = 0x1, 0x300
_INTERRUPTED = 0x10  # something changed while it was listed
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")

# The fixed part of a message's body (each begins with the family), then its attributes by number.
Message = tuple[bytes, dict[int, bytes]]
_FIXED = {16: 16, 20: 8, 24: 12}  # RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE


def dump(kind: int) -> list[Message]:
    """All links (GET_LINK) or addresses (GET_ADDRESS) of this network namespace."""
    for _attempt in range(5):
        messages, whole = _exchange(kind, _DUMP, bytes(_FIXED[kind - 2]))
        if whole:
            break
    return messages


def ask(kind: int, fixed: bytes, attributes: Mapping[int, bytes]) -> list[Message]:
    """The answer to one question; OSError with the kernel's errno where it refuses."""
    body = fixed
    for number, value in attributes.items():
        length = _ATTRIBUTE.size + len(value)
        body += _ATTRIBUTE.pack(length, number) + value + bytes(-length % 4)
    return _exchange(kind, 0, body)[0]


def _exchange(kind: int, flags: int, body: bytes) -> tuple[list[Message], bool]:
    """The messages of the answer, and whether nothing changed meanwhile."""
    request = _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 1, 0) + body
    messages: list[Message] = []
    whole = True
    try:
        kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    except OSError as error:  # a sandbox may have none
        why = strerror(error.errno) if error.errno else str(error)
        raise CannotTell(
            _("cannot query the kernel for interfaces: {why}", why=why), advisory=True
        ) from error
    with kernel:
        kernel.settimeout(SECONDS)
        kernel.send(request)
        while True:
            for number, marks, content in split(kernel.recv(1 << 20)):
                whole = whole and not marks & _INTERRUPTED
                if number == _DONE:
                    return messages, whole
                if number == _ERROR:
                    (refusal,) = struct.unpack_from("=i", content)
                    if refusal:  # 0 is no refusal, but an acknowledgement
                        raise OSError(-refusal, os.strerror(-refusal))
                    return messages, whole
                if number in _FIXED:
                    messages.append(parse(number, content))
            if not flags:
                return messages, whole


def split(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The messages of what was received: type, flags, body; one that is cut off is left out."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, flags, _sequence, _port = _HEADER.unpack_from(data, at)
        if length < _HEADER.size or at + length > len(data):
            return
        yield kind, flags, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def parse(kind: int, body: bytes) -> Message:
    """The fixed part and the attributes of a message about a link, an address or a route."""
    size = _FIXED[kind]
    return body[:size], attributes(body[size:])


def attributes(data: bytes) -> dict[int, bytes]:
    """The attributes by their number, without the marks in it."""
    values = {}
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, number = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size or at + length > len(data):
            break
        values[number & 0x3FFF] = data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return values
