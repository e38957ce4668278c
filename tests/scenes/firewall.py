"""firewall: each of its sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.host import Options
from npudoctor.host.process.commands import Answer
from npudoctor.testing import Asked

from ..checks.network.firewall_machine import (  # noqa: TID252
    EMPTY,
    FAR,
    FIREWALLD,
    HERE,
    LEGACY,
    LIMIT,
    LIST,
    LISTED,
    NFT,
    PEER,
    REFUSED,
    SEVERAL,
    bans,
    drops,
    judge,
)

ZONELESS = drops().replace('"t"', '"firewalld"')


def scene(tmp: Path) -> Iterator[Asked]:
    """Open, blocked for some and for all, and each reason for not knowing."""
    yield judge(variables={})
    yield judge({LIST: EMPTY}, PEER)
    yield judge({LIST: FIREWALLD}, FAR, variables=SEVERAL)
    yield judge({LIST: FIREWALLD, "firewall-cmd": ""}, FAR, variables=SEVERAL)
    yield judge({LIST: ZONELESS, "firewall-cmd": ""}, variables=SEVERAL)
    yield judge({LIST: drops()}, expect="npu")
    yield judge({LIST: FIREWALLD})
    yield judge({LIST: FIREWALLD}, "node2")
    yield judge({LIST: drops(LIMIT)}, PEER)
    for answer in (REFUSED, Answer(LIST, "timeout"), Answer(LIST, "exited", 0, "no json")):
        yield judge({LIST: answer}, PEER, variables=HERE)
    yield judge({LIST: EMPTY}, PEER, files=LISTED)
    yield judge({LIST: NFT}, PEER)
    yield judge({LIST: NFT, "iptables-save": LEGACY}, PEER)
    yield judge({LIST: NFT, "iptables-save": "# (nf_tables)\n"}, PEER)
    yield judge({LIST: EMPTY, "iptables-save": LEGACY}, PEER, files=LISTED)
    yield judge({LIST: bans(2)}, options=Options(peers=(PEER,), timeout=-1.0))
    yield judge(euid=1000)
    yield judge(addresses=(), expect="npu")
