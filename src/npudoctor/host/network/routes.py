"""Asks the kernel for the route to an address: its answer respects all policy rules and routing tables."""

from __future__ import annotations

import socket
import struct
from typing import Optional

from npudoctor.core.errors import CannotTell
from npudoctor.core.frozen import dataclass
from npudoctor.core.messages import _, strerror
from npudoctor.host.network.netlink import GET_ROUTE, ask

UNICAST, LOCAL = 1, 2  # RTN_*
_DESTINATION, _SOURCE, _OUT, _GATEWAY, _PREFERRED = 1, 2, 4, 5, 7  # RTA_*
# ENETUNREACH, EHOSTUNREACH, EACCES (a prohibit route), EINVAL (a blackhole route, or a source not ours).
_NO_WAY = (101, 113, 13, 22)


@dataclass(frozen=True)
class Route:
    """How packets to an address leave. `index`: of the interface. `source`: the address that they would
    carry. `gateway`: "" if the destination is on the link. `local`: the destination is this machine."""

    index: int
    source: str = ""
    gateway: str = ""
    local: bool = False


def route_to(destination: str, source: str = "", index: int = 0) -> Optional[Route]:
    """The route to an IP address, from a source address of ours if given; None if there is none.

    `index`: the interface to leave by, which link-local addresses need. No packet is sent.
    """
    family = socket.AF_INET6 if ":" in destination else socket.AF_INET
    attributes = {_DESTINATION: socket.inet_pton(family, destination)}
    if source:
        attributes[_SOURCE] = socket.inet_pton(family, source)
    if index:
        attributes[_OUT] = struct.pack("=I", index)
    bits = 8 * len(attributes[_DESTINATION])
    # struct rtmsg: family, the lengths of destination and source in bits, the rest is 0 in a question.
    fixed = struct.pack("=BBBBBBBBI", family, bits, bits if source else 0, 0, 0, 0, 0, 0, 0)
    try:
        answers = ask(GET_ROUTE, fixed, attributes)
    except OSError as error:
        if error.errno in _NO_WAY:
            return None
        why = strerror(error.errno) if error.errno else str(error)
        raise CannotTell(
            _("cannot query the kernel for the route to {address}: {why}", address=destination, why=why)
        ) from error
    return parse_route(*answers[0]) if answers else None


def parse_route(fixed: bytes, attributes: dict[int, bytes]) -> Optional[Route]:
    """Parse the kernel's answer; None if it is not a route by which packets leave."""
    kind = fixed[7]
    # Others, such as RTN_BLACKHOLE and RTN_UNREACHABLE, drop the packet.
    if kind not in (UNICAST, LOCAL) or _OUT not in attributes:
        return None
    index = struct.unpack("=I", attributes[_OUT])[0]
    texts = []
    for number in (_PREFERRED, _GATEWAY):
        packed = attributes.get(number, b"")
        family = {4: socket.AF_INET, 16: socket.AF_INET6}.get(len(packed))
        texts.append(socket.inet_ntop(family, packed) if family else "")
    source, gateway = texts
    return Route(index, source, gateway, kind == LOCAL)
