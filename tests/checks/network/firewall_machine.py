"""A fake machine with a firewall, for the tests of the check firewall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

from npudoctor.checks.network.firewall import firewall
from npudoctor.host import Options
from npudoctor.host.process.commands import CommandResult
from npudoctor.testing import Asked, Content, FakeNetwork, ask, fake_host, interface

FOLDER = Path(__file__).parents[2] / "firewall" / "rule_sets"
FIREWALLD, NFT, SAVE, LEGACY = (
    (FOLDER / name).read_text(encoding="utf-8")
    for name in ("firewalld.json", "iptables_nft.json", "iptables_nft.save", "legacy.save")
)
EMPTY = '{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}}]}'
LIST = ("nft", "-j", "list", "ruleset")
PEER, FAR = "10.77.0.2", "10.99.0.1"
HERE = {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500"}
SEVERAL = {**HERE, "SLURM_JOB_NUM_NODES": "2"}
LISTED: dict[str, Content] = {"/proc/net/ip_tables_names": "filter\n"}
REFUSED = CommandResult(LIST, "exited", 1, "", "Operation not permitted (you must be root)\n")

Programs = Mapping[Union[str, tuple[str, ...]], Union[str, CommandResult]]


def judge(
    programs: Optional[Programs] = None,
    *peers: str,
    variables: Mapping[str, str] = HERE,
    files: Optional[Mapping[str, Content]] = None,
    addresses: Sequence[str] = ("10.77.0.1/24",),
    **more: Any,
) -> Asked:
    """A machine with eth7 and a way to everywhere by it."""
    there = [interface("lo", "127.0.0.1/8"), interface("eth7", *addresses)]
    return ask(
        firewall,
        fake_host(
            files,
            variables=variables,
            network=FakeNetwork(there, ["default eth7"]),
            commands={LIST: EMPTY} if programs is None else programs,
            **{"expect": "none", "options": Options(peers=peers), **more},
        ),
    )


def drops(*rules: str) -> str:
    """What nft prints of an input chain that drops, with these rules as JSON."""
    place = '"family": "inet", "table": "t", "chain": "in"'
    made = [f'{{"rule": {{{place}, "handle": {at}, "expr": [{one}]}}}}' for at, one in enumerate(rules, 4)]
    base = '"type": "filter", "hook": "input", "prio": 0, "policy": "drop"'
    chain = f'{{"chain": {{"family": "inet", "table": "t", "name": "in", "handle": 1, {base}}}}}'
    return (
        '{"nftables": [{"table": {"family": "inet", "name": "t", "handle": 1}}, '
        + ", ".join([chain, *made])
        + "]}"
    )


def bans(most: int) -> str:
    """Each address of a list is dropped, as fail2ban and its like have it."""
    left = '"left": {"payload": {"protocol": "ip", "field": "saddr"}}'
    rules = [
        f'{{"match": {{"op": "==", {left}, "right": "11.0.{at >> 8}.{at & 255}"}}}}, {{"drop": null}}'
        for at in range(most)
    ]
    return drops(*rules).replace('"policy": "drop"', '"policy": "accept"')


LIMIT = '{"limit": {"rate": 1, "per": "minute"}}, {"accept": null}'
