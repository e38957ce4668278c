"""A fake machine with a rank table, for the tests of rank-table."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional, Union

from npudoctor.checks.network.rank_table import rank_table
from npudoctor.host import Options
from npudoctor.testing import Asked, Content, ask, device, fake_host

TABLES = Path(__file__).parent / "rank_tables"
PATH = "/job/hccl.json"
HERE = ("127.0.0.1", "192.0.2.1")
CONF = "address_0=198.51.100.10\nnetmask_0=255.255.255.0\naddress_1=198.51.100.11\nnetmask_1=255.255.255.0\n"
NPUS: dict[str, Content] = {"/dev/davinci0": device(), "/dev/davinci1": device()}
NODE: dict[str, Content] = {**NPUS, "/etc/hccn.conf": CONF}


def table(name: str = "servers") -> Any:
    """One of the healthy tables, to be changed by a test."""
    return json.loads((TABLES / f"{name}.json").read_text(encoding="utf-8"))


def devices(told: Any) -> list[Any]:
    """All devices of a table of servers."""
    return [one for server in told["server_list"] for one in server["device"]]


def judged(
    told: Union[bytes, str, dict[str, Any], None],
    variables: Optional[Mapping[str, str]] = None,
    files: Optional[Mapping[str, Content]] = None,
    *,
    path: str = PATH,
    addresses: tuple[str, ...] = HERE,
    packages: Optional[Mapping[str, str]] = None,
    wait: float = 0.0,
) -> Asked:
    """What is said of this table, on a machine with the two NPUs of its first server."""
    machine: dict[str, Content] = dict(NODE if files is None else files)
    if isinstance(told, dict):
        machine[path] = json.dumps(copy.deepcopy(told))
    elif told is not None:
        machine[path] = told
    host = fake_host(
        machine,
        variables={"RANK_TABLE_FILE": path, **(variables or {})},
        addresses=addresses,
        packages=packages,
        options=Options(wait=wait),
    )
    return ask(rank_table, host)
