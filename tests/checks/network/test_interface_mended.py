"""An interface that is off: switched on by `npudoctor fix`, and off again by `npudoctor undo`, for real."""

from __future__ import annotations

from typing import Callable

import pytest

from .interfaces_machine import SCENE
from .mending import mend

pytestmark = pytest.mark.needs_root

SEVERAL = {"MASTER_ADDR": "192.0.2.9", "MASTER_PORT": "29500", "NNODES": "2"}
OFF = {
    "socket-interfaces.down": {"HCCL_SOCKET_IFNAME": "off0"},
    "hccl-interface.down": {"HCCL_IF_IP": "192.168.7.1"},
}


@pytest.mark.parametrize(("code", "back"), [(code, back) for code in OFF for back in ("lines", "undo")])
def test_switched_on_and_off_again(code: str, back: str, need: Callable[..., None]) -> None:
    need("unshare", "ip")
    told = mend(SCENE, code, {**SEVERAL, **OFF[code]}, ("--expect", "npu"), back)
    assert code in told["sick"]
    assert [one["status"] for one in told["fix"]["actions"]] == ["applied"]
    assert (told["fix"]["exit_code"], told["fix"]["changed"]) == (0, True)
    assert code not in told["well"]
    assert (told["again"]["exit_code"], told["again"]["actions"]) == (0, [])
    assert code in told["back"]
