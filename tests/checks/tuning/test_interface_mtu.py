"""interface-mtu: large, standard, a bond, slow and odd ports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from tests.checks.tuning.tuned_machine import card, judge, port

from npudoctor import Status
from npudoctor.checks.tuning.interface_mtu import interface_mtu
from npudoctor.host.network.interfaces import Interface
from npudoctor.testing import Asked, Content, interface


def _asked(files: dict[str, Content], ports: Optional[list[Interface]] = None, **more: int) -> Asked:
    return judge(interface_mtu, files, [card("eth0", "192.0.2.1/24", **more)] if ports is None else ports)


def scene(tmp: Path) -> Iterator[Asked]:
    """Each way of putting it."""
    yield _asked(port("eth0"))
    yield _asked({})


def test_large_frames_are_quiet() -> None:
    assert _asked(port("eth0"), mtu=9000).codes == []
    assert _asked(port("eth0"), mtu=4200).facts == {"mtu": {"eth0": 4200}}


def test_standard_ones_are_said_with_the_way_back() -> None:
    (finding,) = _asked(port("eth0")).findings
    assert "1500" in finding.message and finding.fix is not None and "all nodes" in finding.fix.title
    assert finding.fix.commands == ("ip link set dev eth0 mtu 9000",)
    assert finding.fix.undo_commands == ("ip link set dev eth0 mtu 1500",)


def test_ports_of_a_bond_are_set_through_it_once() -> None:
    files = {**port("eth0"), **port("eth1")}
    ports = [card(name, master="bond0", mtu=9000) for name in ("eth0", "eth1")]
    bond = interface("bond0", "192.0.2.1/24", kind="bond", mtu=1500)
    (finding,) = _asked(files, [*ports, bond]).findings
    assert finding.fix is not None and finding.fix.commands == ("ip link set dev bond0 mtu 9000",)


def test_an_odd_name_is_quoted() -> None:
    (finding,) = _asked(port("a;b"), [card("a;b", "192.0.2.1/24")]).findings
    assert finding.fix is not None and finding.fix.commands == ("ip link set dev 'a;b' mtu 9000",)


def test_skipped_for_slow_ports_and_infiniband() -> None:
    assert _asked({}).status is Status.SKIPPED
    assert _asked(port("eth0"), speed=10_000).status is Status.SKIPPED
    assert _asked({**port("eth0"), "/sys/class/net/eth0/type": "32\n"}).status is Status.SKIPPED
    assert _asked(port("eth0"), mtu=0).status is Status.SKIPPED
