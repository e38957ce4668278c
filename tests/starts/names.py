"""Machines on which names of machines are not what a job expects: hosts, resolvers, families of addresses."""

from __future__ import annotations

from .machine import Machine

_NO_V6 = "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.lo.disable_ipv6=1"
# Nobody answers, and nobody says so.
_HANGING = (
    "nsenter --target $switch --net nft add table inet site",
    "nsenter --target $switch --net nft add chain inet site input '{ type filter hook input priority 0; }'",
    "nsenter --target $switch --net nft add rule inet site input udp dport 53 drop",
)
_NO_NAME = "sed -i /node1/d /etc/hosts"


def _on(job: str, name: str, why: str, *setup: str, near: str = "", **variables: str) -> Machine:
    """One where a job starts if there is a broken one near."""
    needs = ("nft",) if any(" nft " in line for line in setup) else ()
    return Machine(f"{job}-{name}", job, not near, why, setup, variables, needs=needs, near=near)


MACHINES = (
    _on("torchrun", "name-unknown", "the machine's own name is in no file, and no resolver answers", _NO_NAME,
        MASTER_ADDR="node1"),
    _on("torchrun", "name-of-another", "the machine's own name leads to another machine",
        "sed -i 's/.* node1/10.0.0.77 node1/' /etc/hosts", MASTER_ADDR="node1"),
    _on("multiprocessing", "name-of-another", "the machine's own name leads to another machine",
        "sed -i 's/.* node1/10.0.0.77 node1/' /etc/hosts", MASTER_ADDR="node1"),
    _on("multiprocessing", "resolver-hangs", "the machine's own name is asked of a resolver that is silent",
        _NO_NAME, *_HANGING, MASTER_ADDR="node1"),
    _on("multiprocessing", "hosts-unreadable", "the file of names is for root alone", "chmod 600 /etc/hosts",
        MASTER_ADDR="node1"),
    _on("torchrun", "names-from-dns", "names are asked of the resolver alone",
        "sed -i 's/^hosts:.*/hosts: dns/' /etc/nsswitch.conf", MASTER_ADDR="node1"),
    _on("multiprocessing", "no-ipv6", "the master's address is of IPv6, which is off", _NO_V6,
        MASTER_ADDR="::1"),
    _on("torchrun", "name-of-ipv6", "the master's name has an address of IPv6 alone, which is off", _NO_V6,
        "sed -i 's/.* node1/fd00::5 node1/' /etc/hosts", MASTER_ADDR="node1"),
    _on("multiprocessing", "hosts-is-folder", "the file of names is a folder, as a missing file mounts",
        "rm /etc/hosts", "mkdir /etc/hosts", MASTER_ADDR="node1"),
    _on("torchrun", "name-unused", "the machine's own name is unknown, and no job asks for it", _NO_NAME,
        near="torchrun-name-unknown"),
    _on("torchrun", "name-of-debian", "the machine's own name is 127.0.1.1",
        "sed -i 's/.* node1/127.0.1.1 node1/' /etc/hosts", MASTER_ADDR="node1",
        near="torchrun-name-of-another"),
    _on("multiprocessing", "resolver-hangs-unasked", "the resolver is silent, and a file has all names",
        *_HANGING, MASTER_ADDR="node1", near="multiprocessing-resolver-hangs"),
    _on("torchrun", "no-ipv6-wanted", "IPv6 is off, and the master's address is of IPv4", _NO_V6,
        near="torchrun-name-of-ipv6"),
    _on("multiprocessing", "ipv6", "the master's address is of IPv6", MASTER_ADDR="::1",
        near="multiprocessing-no-ipv6"),
    _on("multiprocessing", "resolv-conf-gone", "there is no file that names a resolver",
        "rm /etc/resolv.conf", MASTER_ADDR="localhost", near="multiprocessing-hosts-unreadable"),
)  # fmt: skip
