"""network-buffers: enough, too little for the port, slow and virtual ports, what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

import pytest
from tests.checks.tuning.tuned_machine import card, judge, port

from npudoctor import Status
from npudoctor.checks.tuning.network_buffers import network_buffers
from npudoctor.host.network.interfaces import Interface
from npudoctor.testing import Asked, Content

READ, WRITE = "/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"
# What Linux 6.8 begins with on a large machine.
USUAL = {READ: "4096\t131072\t6291456\n", WRITE: "4096\t16384\t4194304\n"}
LARGE = {READ: "4096\t131072\t67108864\n", WRITE: "4096\t16384\t67108864\n"}


def _asked(
    files: Mapping[str, Content], speed: int = 100_000, ports: Optional[list[Interface]] = None
) -> Asked:
    ports = [card("eth0", "192.0.2.1/24", speed=speed)] if ports is None else ports
    return judge(network_buffers, {**port("eth0"), **files}, ports)


def scene(tmp: Path) -> Iterator[Asked]:
    """Each way of putting it."""
    yield _asked(USUAL)
    yield _asked(LARGE, ports=[])
    yield _asked({**LARGE, READ: "4096\n"})


@pytest.mark.parametrize("speed", [25_000, 100_000, 200_000])
def test_enough(speed: int) -> None:
    asked = _asked(LARGE, speed)
    assert (asked.status, asked.codes, asked.facts["port"]) == (Status.OK, [], "eth0")


def test_the_message_states_the_round_trip_and_the_lines_both_ways() -> None:
    read, write = _asked(USUAL).findings
    assert "6 MiB" in read.message and "100 Gb/s" in read.message and "0.25 ms" in read.message
    assert read.fix is not None and write.fix is not None
    assert read.fix.commands == ("sysctl -w 'net.ipv4.tcp_rmem=4096 131072 67108864'",)
    assert read.fix.undo_commands == ("sysctl -w 'net.ipv4.tcp_rmem=4096 131072 6291456'",)
    assert "tcp_wmem" in write.fix.commands[0]


def test_more_than_the_largest_is_nobodys_advice() -> None:
    (finding, _other) = _asked(USUAL, 800_000).findings
    assert finding.fix is not None and finding.fix.commands[0].endswith(f"{128 << 20}'")


@pytest.mark.parametrize("speed", [10_000, 0])
def test_skipped_for_slow_ports(speed: int) -> None:
    assert _asked(USUAL, speed).status is Status.SKIPPED


def test_skipped_for_what_is_no_card() -> None:
    assert _asked(USUAL, ports=[card("eth0", "192.0.2.1/24", kind="veth")]).status is Status.SKIPPED
    assert _asked(USUAL, ports=[card("eth0", state="down")]).status is Status.SKIPPED


@pytest.mark.parametrize("value", ["", "4096", "a b c", "1 2 -3", "1 2 " + "9" * 30])
def test_cannot_tell(value: str) -> None:
    assert _asked({**LARGE, WRITE: value}).status is Status.UNKNOWN
