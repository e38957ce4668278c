"""Asks the kernel about links, addresses and routes of our network namespace by rtnetlink(7); read only.

Not from /sys/class/net: it shows the namespace in which sysfs was mounted, also after `ip netns exec` and
`nsenter`. Not by psutil: it has no index, operstate, kind or bond of an interface, no scope or state of an
address, and no routes. (`interfaces` asks it for MTU and speed.) pyroute2 takes 120 ms to import.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping

from npudoctor.core.errors import CannotTell
from npudoctor.core.messages import _, strerror

GET_LINK, GET_ADDRESS, GET_ROUTE = 18, 22, 26  # RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE
SECONDS = 2.0  # for one answer; the kernel gives it at once

_ERROR, _DONE = 2, 3  # NLMSG_ERROR, NLMSG_DONE
_REQUEST, _DUMP = 0x1, 0x300  # NLM_F_REQUEST, NLM_F_DUMP
_INTERRUPTED = 0x10  # NLM_F_DUMP_INTR: something changed while it was listed
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # struct rtattr: length, type

# The fixed part of a message's body, which begins with the address family, and its attributes by number.
Message = tuple[bytes, dict[int, bytes]]
# The length of the fixed part: ifinfomsg of RTM_NEWLINK, ifaddrmsg of RTM_NEWADDR, rtmsg of RTM_NEWROUTE.
_FIXED = {16: 16, 20: 8, 24: 12}


def dump(kind: int) -> list[Message]:
    """All links (GET_LINK) or addresses (GET_ADDRESS) of this network namespace; OSError, CannotTell.

    A list during which something changed is asked for again, up to five times.
    """
    for _attempt in range(5):
        messages, is_complete = _exchange(kind, _DUMP, bytes(_FIXED[kind - 2]))
        if is_complete:
            break
    return messages


def ask(kind: int, fixed: bytes, attributes: Mapping[int, bytes]) -> list[Message]:
    """The answer to one question, such as GET_ROUTE; OSError with the kernel's errno if it refuses."""
    body = fixed
    for number, value in attributes.items():
        length = _ATTRIBUTE.size + len(value)
        body += _ATTRIBUTE.pack(length, number) + value + bytes(-length % 4)  # padded to 4 bytes
    return _exchange(kind, 0, body)[0]


def _exchange(kind: int, flags: int, body: bytes) -> tuple[list[Message], bool]:
    """The messages of an answer, and whether nothing changed while the kernel listed them."""
    request = _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 1, 0) + body
    messages: list[Message] = []
    is_complete = True
    try:
        kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    except OSError as error:  # gVisor and some seccomp profiles allow no netlink socket
        why = strerror(error.errno) if error.errno else str(error)
        raise CannotTell(
            _("cannot query the kernel for interfaces: {why}", why=why), advisory=True
        ) from error
    with kernel:
        kernel.settimeout(SECONDS)
        kernel.send(request)
        while True:
            for number, message_flags, content in split_messages(kernel.recv(1 << 20)):
                is_complete = is_complete and not message_flags & _INTERRUPTED
                if number == _DONE:
                    return messages, is_complete
                if number == _ERROR:
                    (refusal,) = struct.unpack_from("=i", content)
                    if refusal:  # 0 is an acknowledgement: netlink(7)
                        raise OSError(-refusal, os.strerror(-refusal))
                    return messages, is_complete
                if number in _FIXED:
                    messages.append(parse_message(number, content))
            if not flags:
                return messages, is_complete


def split_messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the type, flags and body of each message in what was received; not of one that is cut off."""
    position = 0
    while position + _HEADER.size <= len(data):
        length, kind, flags, _sequence, _port = _HEADER.unpack_from(data, position)
        if length < _HEADER.size or position + length > len(data):
            return
        yield kind, flags, data[position + _HEADER.size : position + length]
        position += (length + 3) & ~3


def parse_message(kind: int, body: bytes) -> Message:
    """Parse the body of a message about a link, an address or a route."""
    size = _FIXED[kind]
    return body[:size], parse_attributes(body[size:])


def parse_attributes(data: bytes) -> dict[int, bytes]:
    """The attributes by their number, without NLA_F_NESTED and NLA_F_NET_BYTEORDER, the two highest bits."""
    values = {}
    position = 0
    while position + _ATTRIBUTE.size <= len(data):
        length, number = _ATTRIBUTE.unpack_from(data, position)
        if length < _ATTRIBUTE.size or position + length > len(data):
            break
        values[number & 0x3FFF] = data[position + _ATTRIBUTE.size : position + length]
        position += (length + 3) & ~3
    return values
