"""The meeting of a job's ranks: names, the master's port, a connection to it, HCCL's ports on the host.

`points`: where ranks meet, each with `label` (the variable of its port), `place` (a name or an address),
`port`, `bind` ("any" as torch's TCPStore does, "place" as MindSpore's scheduler does, "either" where nobody
knows which it will be, "" for nobody here), `here` (False where the place is known to be another machine,
None where the kernel is to say) and `first` (whether the rank that listens is known to run here).
`ways`: addresses that libraries are told to use, each with its `label`.
`hccl`: `address` and `ports`, or null. `own`: whether this host's own name is tried. `wait`: seconds for an
answer of the resolver.
"""

import array
import contextlib
import errno
import os
import struct
import time
from typing import Any, Dict, List, Optional, Tuple

from npudoctor.trial.parts.attempts import QUESTIONS, attempt, end, one_at_a_time
from npudoctor.trial.parts.lookups import Lookups, doubts, is_loopback, of_this_machine, ours

FILTER = 26  # SO_ATTACH_FILTER
LEAST_TTL, LEAST_HOPS = 21, 73  # IP_MINTTL, IPV6_MINHOPCOUNT
# Packets begin with the most, which nobody gives them by himself, and lose one at each router.
MOST, FEW_ROUTERS = 255, 250
LOOPBACK = b"lo\0"
WORD = b"npudoctor"
CONNECTIONS = 8  # at once: two ranks of torch and their agent were seen to have seven
NO_PORT = "no port is left"  # for the end that connects
NEAR = 1.0  # seconds for a connection within this machine
FAR = 2.5  # seconds for one to another: a lost SYN is sent again after one


def program(port: int) -> bytes:
    """For the socket filter: only what comes from this port, which is 0 for nothing at all."""
    lines = ((0x28, 0, 0, 0), (0x15, 0, 1, port), (0x06, 0, 0, 0xFFFFFFFF), (0x06, 0, 0, 0))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def only_from(listener: Any, port: int) -> bool:
    """Let nobody but our own end reach the listener: a rank elsewhere that already looks for its master must
    not find us. Whether the kernel has such a filter."""
    import socket

    code = array.array("B", program(port))
    try:
        listener.setsockopt(socket.SOL_SOCKET, FILTER, struct.pack("@HP", 4, code.buffer_info()[0]))
    except OSError:
        return False
    return True


def guarded(listener: Any, near: bool) -> bool:
    """Let no stranger reach the listener; False where that cannot be had.

    Some kernels give filters to root alone. From Linux 5.7 on everybody may bind a socket to an interface,
    which is enough for a loopback address (`near`): nobody comes from elsewhere, and who comes from here is
    reset. What this machine sends to another address of its own does not count as coming by lo: then what has
    fewer hops left than ours is dropped, as all that other Linux machines send has 64.
    """
    import socket

    if only_from(listener, 0):
        return True
    with contextlib.suppress(OSError):
        if near:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, LOOPBACK)
            return True
    with contextlib.suppress(OSError):
        listener.setsockopt(socket.IPPROTO_IP, LEAST_TTL, FEW_ROUTERS)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, LEAST_HOPS, FEW_ROUTERS)
        return True
    return False


def let_in(listener: Any, client: Any) -> int:
    """Make our own end one that the listener takes: its port."""
    import socket

    if client.family == socket.AF_INET6:
        client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, MOST)
    else:
        client.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, MOST)
    client.bind(("", 0))
    port = int(client.getsockname()[1])
    only_from(listener, port)
    return port


def by_reset(sock: Any) -> Any:
    """Closed by a reset, also when we are killed: nothing stays in TIME_WAIT."""
    import socket

    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return sock


def listening(addresses: List[Tuple[int, Any]], near: bool = False) -> Any:
    """A listener on the first of these addresses that can be had, as TCPStore tries them; nobody reaches it.
    With SO_REUSEADDR: what is in TIME_WAIT, or only bound, is in nobody's way."""
    import socket

    refusals = []
    for family, address in addresses:
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            refusals.append(error)
            continue
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind(address)
            # Unguarded only on a port that nobody looks for: bind() too says whether somebody listens there.
            if guarded(by_reset(listener), near) or not address[1]:
                listener.listen(CONNECTIONS)
            return listener
        except OSError as error:
            refusals.append(error)
            listener.close()
    # The one that says most: without IPv6 the first is only that.
    telling = [
        error for error in refusals if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
    ] or refusals
    raise telling[-1]


def persistently(addresses: List[Tuple[int, Any]], near: bool = False) -> Any:
    """Whoever is about to go may hold a port for a moment longer."""
    for pause in (0.02, 0.06):
        try:
            return listening(addresses, near)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        time.sleep(pause)
    return listening(addresses, near)


class Elsewhere(OSError):
    """Connected, but not to us."""


def exchange(listener: Any, family: int, address: Any, facts: Dict[str, Any]) -> None:
    """Connect to the listener several times at once, send a few bytes there and back, and reset."""
    import socket

    with contextlib.ExitStack() as stack:
        for number in range(CONNECTIONS):
            facts["connections"] = number  # that were made before
            client = stack.enter_context(by_reset(socket.socket(family, socket.SOCK_STREAM)))
            client.settimeout(NEAR)
            try:
                port = let_in(listener, client)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise OSError(errno.EADDRNOTAVAIL, NO_PORT) from None
                raise
            client.connect(address)
            server = stack.enter_context(accepted(listener, port))
            server.settimeout(NEAR)
            for one, other in ((client, server), (server, client)):
                one.sendall(WORD)
                if other.recv(64) != WORD:
                    raise OSError(errno.EPROTO, "other bytes came than were sent")


def accepted(listener: Any, port: int) -> Any:
    """The other end of what comes from this port; whoever else came is reset."""
    listener.settimeout(NEAR)
    try:
        while True:
            server, peer = listener.accept()
            if peer[1] == port:
                return by_reset(server)
            by_reset(server).close()
    except OSError as error:
        if error.errno not in (None, errno.EAGAIN):  # refused, not only silent
            raise
        raise Elsewhere(errno.EADDRINUSE, "another program answers there") from None


def reach(listener: Any, found: List[Tuple[int, Any]], facts: Dict[str, Any]) -> None:
    """By the first of these addresses that answers, as every client tries them. The listener's own port."""
    port = listener.getsockname()[1]
    refusal: Optional[OSError] = None
    for family, address in found:
        try:
            exchange(listener, family, (address[0], port, *address[2:]), facts)
            del facts["connections"]
            return
        except Elsewhere:
            raise  # a client asks no further once it is connected
        except OSError as error:
            refusal = timed(error)
            if refusal.errno == errno.ETIMEDOUT:
                facts["silent"] = address[0]
    if refusal is not None:
        raise refusal


def timed(error: OSError) -> OSError:
    """Python's own timeout has no errno."""
    if error.errno is None:
        return OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
    return error


def everywhere(port: int) -> List[Tuple[int, Any]]:
    """As torch's TCPStore listens: all addresses by IPv6, and where that is refused, by IPv4."""
    import socket

    return [(family, ("", port)) for family in (socket.AF_INET6, socket.AF_INET)]


def guards(near: bool) -> bool:
    """Whether strangers can be kept from a listener here."""
    import socket

    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        return guarded(sock, near)
    return False


def meet(point: Dict[str, Any], found: List[Tuple[int, Any]], own: List[Tuple[int, Any]]) -> None:
    """Listen where the ranks will meet, and come there as they will: by the place's name, and by our own."""
    port, label, place = point["port"], point["label"], point["place"]
    here = of_this_machine(found)
    by_place = [(family, (address[0], port, *address[2:])) for family, address in here]
    near = bool(here) and all(is_loopback(address[0]) for _family, address in here)
    with one_at_a_time("rendezvous") as alone:
        listener = None
        with attempt("bind", label=label, port=port, place=place, alone=alone) as facts:
            try:
                listener = persistently(by_place if point["bind"] == "place" else everywhere(port), near)
            except OSError:
                if point["bind"] == "either":
                    with contextlib.suppress(OSError):
                        listener = listening(by_place, near)
                        facts["only_by_place"] = True
                raise
        if listener is None:
            return
        # Where others could reach it, it was bound only, and another port is connected to.
        filtered = not port or guards(False)
        if not filtered and not (near and guards(True)):
            listener.close()
            listener = listening(everywhere(0))
        with listener:
            if here:
                with attempt("connect", label=label, port=port, place=place) as facts:
                    reach(listener, here, facts)
            elif found and filtered:
                # It may lead back to us, as a container's host passes a port on.
                with attempt("connect-elsewhere", label=label, port=port, place=place) as facts:
                    call(point, found, NEAR, facts, listener)
        if here and found[0] not in here:
            detour(point, found[: found.index(here[0])])
        # On another port: what leads nowhere takes its second, and the job may want its port by then.
        if own and point["bind"] != "place":
            come_by_own_name(port, own)


def come_by_own_name(port: int, own: List[Tuple[int, Any]]) -> None:
    """As Gloo does; where that leads nowhere, whether the loopback address does."""
    import socket

    reached = False
    with attempt("connect-own", port=port) as facts, listening(everywhere(0)) as listener:
        reach(listener, own[:1], facts)  # Gloo tells the others the first that it can bind to
        reached = True
    if not reached:
        loopback = [(socket.AF_INET, ("127.0.0.1", 0))]  # type: List[Tuple[int, Any]]
        with attempt("connect-loopback") as facts, listening(loopback, True) as listener:
            reach(listener, loopback, facts)


def detour(point: Dict[str, Any], found: List[Tuple[int, Any]]) -> None:
    """To addresses that clients try before those of this machine; only one that is silent costs them time."""
    label, place = point["label"], point["place"]
    with attempt("detour", label=label, place=place, address=found[0][1][0]):
        try:
            knock(found, point["port"], NEAR)
        except OSError as error:
            if error.errno == errno.ETIMEDOUT:
                raise


def come_by_interface(way: Dict[str, Any]) -> None:
    """By the address of the interface that a library is told to use."""
    import socket

    with attempt("connect-way", label=way["label"], address=way["address"]) as facts:
        told = socket.getaddrinfo(way["address"], 0, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
        with listening(everywhere(0)) as listener:
            reach(listener, [(entry[0], entry[4]) for entry in told], facts)


def call(
    point: Dict[str, Any],
    found: List[Tuple[int, Any]],
    seconds: float,
    facts: Dict[str, Any],
    listener: Any = None,
) -> None:
    """To another machine. Where nobody listens it may be that the name only seems to be that machine's."""
    try:
        knock(found, point["port"], seconds, listener)
    except OSError:
        facts.update(doubts(point["place"], found))
        raise


def knock(found: List[Tuple[int, Any]], port: int, seconds: float, listener: Any = None) -> None:
    """Connect to the first of these addresses that answers: by somebody, or by a refusal, which came back the
    same way. A listener of ours lets it in, should it lead there."""
    import socket

    refusal: Optional[OSError] = None
    until = time.monotonic() + seconds
    for family, address in found:
        try:
            with by_reset(socket.socket(family, socket.SOCK_STREAM)) as client:
                client.settimeout(max(0.1, until - time.monotonic()))
                if listener is not None:
                    let_in(listener, client)
                client.connect((address[0], port, *address[2:]))
                return
        except OSError as error:
            refusal = error
            if error.errno in (errno.ECONNREFUSED, errno.ECONNRESET):
                break
    if refusal is not None:
        raise timed(refusal)


def try_hccl(asked: Dict[str, Any]) -> None:
    """All of its ports at once, as the processes of a node hold them."""
    import socket

    family = socket.AF_INET6 if ":" in asked["address"] else socket.AF_INET
    listeners, refused = [], {}
    address = asked["address"]
    with one_at_a_time("rendezvous") as alone, attempt("hccl", address=address, alone=alone) as facts:
        for port in asked["ports"]:
            try:
                listeners.append(persistently([(family, (address, port))]))
            except OSError as error:
                refused[str(port)], facts["why"] = error.errno, error.strerror
        for listener in listeners:
            listener.close()
        facts["refused"] = refused


def try_rendezvous() -> None:
    import socket

    with attempt("interfaces"):
        socket.if_nameindex()  # by netlink, as getifaddrs() asks, without which Gloo has no address
    points, name = QUESTIONS["points"], socket.gethostname()
    names = [point["place"] for point in points] + ([name] if QUESTIONS["own"] else [])
    lookups = Lookups(sorted(set(names)), QUESTIONS["wait"])
    own = []  # type: List[Tuple[int, Any]]
    if QUESTIONS["own"]:
        with attempt("own-name", name=name) as facts:
            told = lookups.found(name, facts)
            own = ours(told)
            facts["ours"] = [address[0] for _family, address in own]
    for point in points:
        found = []  # type: List[Tuple[int, Any]]
        with attempt("resolve", label=point["label"], place=point["place"]) as facts:
            found = lookups.found(point["place"], facts)
        here = of_this_machine(found)
        if point["bind"] and (here or point["here"] or point["first"]):
            meet(point, found, own)
        elif found and not here and point["call"]:
            label, place, port = point["label"], point["place"], point["port"]
            # That nobody listens there yet is well.
            well = contextlib.suppress(ConnectionRefusedError, ConnectionResetError)
            with attempt("call", label=label, place=place, port=port) as facts, well:
                call(point, found, FAR, facts)
    for way in QUESTIONS["ways"]:
        come_by_interface(way)
    if QUESTIONS["hccl"]:
        try_hccl(QUESTIONS["hccl"])


with attempt("socket"):
    try_rendezvous()
end()
