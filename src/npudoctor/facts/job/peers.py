"""Where the job's other nodes are, as far as the user and the variables say."""

from __future__ import annotations

from typing import Optional

from npudoctor.core.addresses import ip_address
from npudoctor.core.frozen import dataclass
from npudoctor.facts.job.local_addresses import is_local
from npudoctor.facts.job.nodes import is_here, node_count
from npudoctor.host.host import Host
from npudoctor.host.network.names import RENDEZVOUS


@dataclass(frozen=True)
class Peer:
    """An address of another node, and what named it: "--peers", or a variable."""

    address: str
    named_by: str


def has_several_nodes(host: Host) -> bool:
    """Return whether the job has other nodes: by --peers, by counts, or by a master elsewhere.

    The master's name is resolved by the system where nothing else tells, which may take seconds.
    """
    if host.options.peers:
        return True
    count = node_count(host)
    if count is not None:
        return count > 1
    places = (host.variables.get(name, "") for name in RENDEZVOUS)
    return any(place and is_here(host, place) is False for place in places)


def find_first_peer(host: Host) -> Optional[Peer]:
    """An IP address of another node, the master's if it is one; None where nothing names any.

    A name is resolved by the system, which may take seconds.
    """
    rendezvous = [(host.variables.get(name, ""), name) for name in RENDEZVOUS]
    for place, named_by in (*rendezvous, *((peer, "--peers") for peer in host.options.peers)):
        if not place or is_local(host, place):
            continue
        # An address needs no name server.
        literal = ip_address(place)
        addresses = (literal,) if literal else host.names.resolve(place).addresses
        remote_addresses = [address for address in addresses if not is_local(host, address)]
        if remote_addresses:
            return Peer(min(remote_addresses, key=lambda address: ":" in address), named_by)
    return None
