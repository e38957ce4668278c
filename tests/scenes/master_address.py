"""master-address: each of its sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from npudoctor.testing import Asked, fake_host

from ..checks.network.test_master_address import SEVERAL, judge  # noqa: TID252


def scene(tmp: Path) -> Iterator[Asked]:
    """Each code, name servers that are silent, and no variable at all."""
    ours = fake_host().system.name
    for place in ("nobody", "10.0.0.9:29500", "127.0.0.1", "172.17.0.1", "slow"):
        yield judge({"MASTER_ADDR": place, **SEVERAL})
    yield judge({"MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "x", "RANK": "0"})
    yield judge({"MASTER_ADDR": "10.9.9.9"}, routes=())
    yield judge({"MS_SCHED_HOST": "six"})
    yield judge({"MASTER_ADDR": ours, **SEVERAL}, names={ours: ["127.0.1.1"]})
    yield judge({})
