"""Whether an address or a name means this machine, without asking a name server: one may not answer."""

from __future__ import annotations

from typing import Optional

from npudoctor.host.host import Host

# As the distributions' /etc/hosts have them.
LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "localhost6")


def is_local(host: Host, text: str) -> Optional[bool]:
    """Return whether an address, a host name or a name of /etc/hosts is this machine; None for what only a
    name server knows.
    """
    own_address = _is_own_address(host, text)
    if own_address is not None:
        return own_address
    name = text.lower().rstrip(".")
    if name in LOCAL_NAMES or name.endswith(".localhost") or is_same_host(name, host.system.name.lower()):
        return True
    # A name may have an IPv4 and an IPv6 line: one that is ours is enough.
    answers = set()
    for line in (host.files.text("/etc/hosts") or "").splitlines():
        address, *names = line.partition("#")[0].lower().split() or [""]
        if name in names:
            answers.add(_is_own_address(host, address))
    answers.discard(None)
    return True in answers if answers else None


def is_same_host(name: str, other: str) -> bool:
    """Return whether two names mean one host: they are equal, or one is the first part of the other."""
    if name == other or not name or not other:
        return name == other
    # node1 and node1.cluster may be one host; node1.a and node1.b are two.
    short = "." not in name or "." not in other
    return short and name.partition(".")[0] == other.partition(".")[0]


def _is_own_address(host: Host, text: str) -> Optional[bool]:
    """Return whether an IP address is this machine's; None when the text is not an IP address."""
    address = _canonical(text)
    if address is None:
        return None
    import ipaddress

    number = ipaddress.ip_address(address)
    # 0.0.0.0 and :: reach the own machine when one connects to them.
    if number.is_loopback or number.is_unspecified:
        return True
    return address in {_canonical(own) for own in host.sockets.own_addresses()}


def _canonical(text: str) -> Optional[str]:
    """One spelling for each address: no brackets, no zone, IPv4 out of IPv6."""
    import ipaddress

    try:
        number = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = number.ipv4_mapped if isinstance(number, ipaddress.IPv6Address) else None
    return str(mapped or number)
