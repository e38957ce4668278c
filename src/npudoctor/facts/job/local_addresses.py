"""Whether an address or a name means this machine, without asking a name server: one may not answer."""

from __future__ import annotations

from typing import Optional

from npudoctor.host.host import Host

LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "localhost6")


def is_local(host: Host, text: str) -> Optional[bool]:
    """For an address, our own name, or a name of /etc/hosts; None for what only a name server knows."""
    known = _address_is_us(host, text)
    if known is not None:
        return known
    name = text.lower().rstrip(".")
    if name in LOCAL_NAMES or name.endswith(".localhost") or same_host(name, host.system.name.lower()):
        return True
    answers = set()
    for line in (host.files.text("/etc/hosts") or "").splitlines():
        address, *names = line.partition("#")[0].lower().split() or [""]
        if name in names:
            answers.add(_address_is_us(host, address))
    answers.discard(None)
    return True in answers if answers else None


def same_host(name: str, other: str) -> bool:
    """Whether two names are one host's: equal, or the one is the other's first part."""
    if name == other or not name or not other:
        return name == other
    short = "." not in name or "." not in other
    return short and name.partition(".")[0] == other.partition(".")[0]


def _address_is_us(host: Host, text: str) -> Optional[bool]:
    """None when the text is not an IP address."""
    address = _canonical(text)
    if address is None:
        return None
    import ipaddress

    number = ipaddress.ip_address(address)
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
