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
from npudoctor.trial.parts.lookups import Lookups, find_doubts, is_loopback, select_bindable, select_local

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


def filter_program(port: int) -> bytes:
    """The program of a socket filter (classic BPF): only what comes from this port; for 0 nothing."""
    # Load the half-word at 0, the source port of the TCP header; compare; accept all or nothing.
    lines = ((0x28, 0, 0, 0), (0x15, 0, 1, port), (0x06, 0, 0, 0xFFFFFFFF), (0x06, 0, 0, 0))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def accept_only_from(listener: Any, port: int) -> bool:
    """Let no rank elsewhere, only our own client, reach the listener; False where no filter is granted."""
    import socket

    code = array.array("B", filter_program(port))
    try:
        listener.setsockopt(socket.SOL_SOCKET, FILTER, struct.pack("@HP", 4, code.buffer_info()[0]))
    except OSError:
        return False
    return True


def guard(listener: Any, near: bool) -> bool:
    """Let no stranger reach the listener; return False where that is impossible.

    Some kernels grant filters to root alone. From Linux 5.7 on everybody may bind a socket to an interface,
    which is enough for a loopback address (`near`): nothing comes from elsewhere, and what comes from here is
    reset. What this machine sends to another address of its own does not count as coming by lo: then packets
    with fewer hops left than ours are dropped, as all that other Linux machines send have 64.
    """
    import socket

    if accept_only_from(listener, 0):
        return True
    with contextlib.suppress(OSError):
        if near:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, LOOPBACK)
            return True
    with contextlib.suppress(OSError):
        listener.setsockopt(socket.IPPROTO_IP, LEAST_TTL, FEW_ROUTERS)
        # An IPv6 socket that also takes IPv4 needs both limits.
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, LEAST_HOPS, FEW_ROUTERS)
        return True
    return False


def let_in(listener: Any, client: Any) -> int:
    """Make our own client one that the listener accepts; return its port."""
    import socket

    if client.family == socket.AF_INET6:
        client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, MOST)
    else:
        client.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, MOST)
    # Bound before connect: the filter must know the port.
    client.bind(("", 0))
    port = int(client.getsockname()[1])
    accept_only_from(listener, port)
    return port


def close_by_reset(sock: Any) -> Any:
    """Have a socket closed by a reset, also when we are killed: nothing stays in TIME_WAIT."""
    import socket

    # l_onoff 1, l_linger 0: close() sends RST (socket(7)).
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return sock


def open_listener(addresses: List[Tuple[int, Any]], near: bool = False) -> Any:
    """A listener on the first of these addresses that can be bound; nobody reaches it. With SO_REUSEADDR, as
    TCPStore: a port in TIME_WAIT, or only bound, does not refuse it.
    """
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
            if guard(close_by_reset(listener), near) or not address[1]:
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


def retry_listener(addresses: List[Tuple[int, Any]], near: bool = False) -> Any:
    """The same, tried three times: a process that is about to end may hold a port for a moment longer."""
    for pause in (0.02, 0.06):
        try:
            return open_listener(addresses, near)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        time.sleep(pause)
    return open_listener(addresses, near)


class AnsweredElsewhere(OSError):
    """The connection was accepted, but not by our listener."""


def exchange(listener: Any, family: int, address: Any, facts: Dict[str, Any]) -> None:
    """Connect to the listener several times at once, send a few bytes there and back, and reset."""
    import socket

    with contextlib.ExitStack() as stack:
        for number in range(CONNECTIONS):
            facts["connections"] = number  # that were made before
            client = stack.enter_context(close_by_reset(socket.socket(family, socket.SOCK_STREAM)))
            client.settimeout(NEAR)
            try:
                port = let_in(listener, client)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    # bind() to port 0 answers EADDRINUSE when ip_local_port_range is used up.
                    raise OSError(errno.EADDRNOTAVAIL, NO_PORT) from None
                raise
            client.connect(address)
            server = stack.enter_context(accept_own(listener, port))
            server.settimeout(NEAR)
            for sender, receiver in ((client, server), (server, client)):
                sender.sendall(WORD)
                if receiver.recv(64) != WORD:
                    raise OSError(errno.EPROTO, "other bytes came than were sent")


def accept_own(listener: Any, port: int) -> Any:
    """The other end of the connection that comes from this port; other connections are reset."""
    listener.settimeout(NEAR)
    try:
        while True:
            server, peer = listener.accept()
            if peer[1] == port:
                return close_by_reset(server)
            close_by_reset(server).close()
    except OSError as error:
        if error.errno not in (None, errno.EAGAIN):  # refused, not only silent
            raise
        raise AnsweredElsewhere(errno.EADDRINUSE, "another program answers there") from None


def reach(listener: Any, addresses: List[Tuple[int, Any]], facts: Dict[str, Any]) -> None:
    """Connect to our listener by the first of these addresses that answers, as every client tries them."""
    port = listener.getsockname()[1]
    refusal: Optional[OSError] = None
    for family, address in addresses:
        try:
            exchange(listener, family, (address[0], port, *address[2:]), facts)
            del facts["connections"]
            return
        except AnsweredElsewhere:
            raise  # a client asks no further once it is connected
        except OSError as error:
            refusal = with_errno(error)
            if refusal.errno == errno.ETIMEDOUT:
                facts["silent"] = address[0]
    if refusal is not None:
        raise refusal


def with_errno(error: OSError) -> OSError:
    """The same error with an errno: Python's own timeout has none."""
    if error.errno is None:
        return OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
    return error


def any_addresses(port: int) -> List[Tuple[int, Any]]:
    """The addresses on which torch's TCPStore listens: all by IPv6 and, where that is refused, by IPv4."""
    import socket

    return [(family, ("", port)) for family in (socket.AF_INET6, socket.AF_INET)]


def can_guard(near: bool) -> bool:
    """Return whether strangers can be kept from a listener here."""
    import socket

    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        return guard(sock, near)
    return False


def try_meeting(point: Dict[str, Any], addresses: List[Tuple[int, Any]], own: List[Tuple[int, Any]]) -> None:
    """Listen where the ranks will meet, and connect as they will: by the place's name, and by our own."""
    port, label, place = point["port"], point["label"], point["place"]
    here = select_local(addresses)
    by_place = [(family, (address[0], port, *address[2:])) for family, address in here]
    near = bool(here) and all(is_loopback(address[0]) for _family, address in here)
    with one_at_a_time("rendezvous") as alone:
        listener = None
        with attempt("bind", label=label, port=port, place=place, alone=alone) as facts:
            try:
                listener = retry_listener(by_place if point["bind"] == "place" else any_addresses(port), near)
            except OSError:
                if point["bind"] == "either":
                    with contextlib.suppress(OSError):
                        listener = open_listener(by_place, near)
                        facts["only_by_place"] = True
                raise
        if listener is None:
            return
        # Where others could reach it, it was bound only, and another port is connected to.
        filtered = not port or can_guard(False)
        if not filtered and not (near and can_guard(True)):
            listener.close()
            listener = open_listener(any_addresses(0))
        with listener:
            if here:
                with attempt("connect", label=label, port=port, place=place) as facts:
                    reach(listener, here, facts)
            elif addresses and filtered:
                # It may lead back to us, as a container's host passes a port on.
                with attempt("connect-elsewhere", label=label, port=port, place=place) as facts:
                    try_call(point, addresses, NEAR, facts, listener)
        if here and addresses[0] not in here:
            try_detour(point, addresses[: addresses.index(here[0])])
        # On another port: what leads nowhere takes its second, and the job may want its port by then.
        if own and point["bind"] != "place":
            try_own_name(port, own)


def try_own_name(port: int, own: List[Tuple[int, Any]]) -> None:
    """Connect by our own name as Gloo does; where that fails, try the loopback address."""
    import socket

    reached = False
    with attempt("connect-own", port=port) as facts, open_listener(any_addresses(0)) as listener:
        reach(listener, own[:1], facts)  # Gloo tells the others the first that it can bind to
        reached = True
    if not reached:
        loopback = [(socket.AF_INET, ("127.0.0.1", 0))]  # type: List[Tuple[int, Any]]
        with attempt("connect-loopback") as facts, open_listener(loopback, True) as listener:
            reach(listener, loopback, facts)


def try_detour(point: Dict[str, Any], addresses: List[Tuple[int, Any]]) -> None:
    """Connect to addresses that clients try before this machine's; only a silent one costs them time."""
    label, place = point["label"], point["place"]
    with attempt("detour", label=label, place=place, address=addresses[0][1][0]):
        try:
            knock(addresses, point["port"], NEAR)
        except OSError as error:
            if error.errno == errno.ETIMEDOUT:
                raise


def try_interface(way: Dict[str, Any]) -> None:
    """Connect by the address of the interface that a library is told to use."""
    import socket

    with attempt("connect-way", label=way["label"], address=way["address"]) as facts:
        entries = socket.getaddrinfo(way["address"], 0, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
        with open_listener(any_addresses(0)) as listener:
            reach(listener, [(entry[0], entry[4]) for entry in entries], facts)


def try_call(
    point: Dict[str, Any],
    addresses: List[Tuple[int, Any]],
    seconds: float,
    facts: Dict[str, Any],
    listener: Any = None,
) -> None:
    """Connect to another machine. Where nobody listens, the name may only seem to be that machine's."""
    try:
        knock(addresses, point["port"], seconds, listener)
    except OSError:
        facts.update(find_doubts(point["place"], addresses))
        raise


def knock(addresses: List[Tuple[int, Any]], port: int, seconds: float, listener: Any = None) -> None:
    """Connect to the first of these addresses that answers, be it by a refusal: that came back the same way.
    `listener`: ours, which lets the connection in, should it lead there.
    """
    import socket

    refusal: Optional[OSError] = None
    until = time.monotonic() + seconds
    for family, address in addresses:
        try:
            with close_by_reset(socket.socket(family, socket.SOCK_STREAM)) as client:
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
        raise with_errno(refusal)


def try_hccl(question: Dict[str, Any]) -> None:
    """Bind all of HCCL's ports at once, as the processes of a node hold them."""
    import socket

    family = socket.AF_INET6 if ":" in question["address"] else socket.AF_INET
    listeners, refused = [], {}
    address = question["address"]
    with one_at_a_time("rendezvous") as alone, attempt("hccl", address=address, alone=alone) as facts:
        for port in question["ports"]:
            try:
                listeners.append(retry_listener([(family, (address, port))]))
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
            entries = lookups.addresses_of(name, facts)
            own = select_bindable(entries)
            facts["ours"] = [address[0] for _family, address in own]
    for point in points:
        addresses = []  # type: List[Tuple[int, Any]]
        with attempt("resolve", label=point["label"], place=point["place"]) as facts:
            addresses = lookups.addresses_of(point["place"], facts)
        here = select_local(addresses)
        if point["bind"] and (here or point["here"] or point["first"]):
            try_meeting(point, addresses, own)
        elif addresses and not here and point["call"]:
            label, place, port = point["label"], point["place"], point["port"]
            # That nobody listens there yet is well.
            well = contextlib.suppress(ConnectionRefusedError, ConnectionResetError)
            with attempt("call", label=label, place=place, port=port) as facts, well:
                try_call(point, addresses, FAR, facts)
    for way in QUESTIONS["ways"]:
        try_interface(way)
    if QUESTIONS["hccl"]:
        try_hccl(QUESTIONS["hccl"])


with attempt("socket"):
    try_rendezvous()
end()
