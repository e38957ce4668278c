"""How many nodes a job has, and whether its ranks meet here."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Optional

import pytest

from npudoctor.facts.job.nodes import is_here, is_rank_zero, node_count
from npudoctor.host import Options
from npudoctor.host.network import names
from npudoctor.host.network.names import Names, Resolution, ask_system
from npudoctor.testing import fake_host


@pytest.mark.parametrize(
    ("variables", "nodes"),
    [
        ({}, None),
        ({"WORLD_SIZE": "1"}, 1),
        ({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, 1),
        ({"WORLD_SIZE": "17", "LOCAL_WORLD_SIZE": "8"}, 3),
        ({"WORLD_SIZE": "16"}, None),
        ({"SLURM_JOB_NUM_NODES": "4", "SLURM_STEP_NUM_NODES": "1"}, 1),
        ({"SLURM_NNODES": "4"}, 4),
        ({"MASTER_ADDR": "127.0.0.1"}, 1),
        ({"MASTER_ADDR": "localhost", "NNODES": "2"}, 2),
        ({"MASTER_ADDR": "10.0.0.1", "NNODES": "many"}, None),
    ],
)
def test_nodes(variables: dict[str, str], nodes: Optional[int]) -> None:
    assert node_count(fake_host(variables=variables)) == nodes


def test_the_first_rank() -> None:
    assert is_rank_zero(fake_host(variables={"RANK": "0"}))
    assert not is_rank_zero(fake_host(variables={"RANK": "1"}))
    assert not is_rank_zero(fake_host())


def test_whether_a_place_is_here() -> None:
    host = fake_host(addresses=("10.0.0.1",), names={"us": ["10.0.0.1"], "them": ["10.0.0.2"]})
    assert [is_here(host, place) for place in ("us", "them", "nobody", "10.0.0.1")] == [
        True, False, None, True,
    ]  # fmt: skip


def test_the_system_is_asked_once() -> None:
    asked: list[Sequence[str]] = []

    def ask(wanted: Sequence[str]) -> dict[str, Resolution]:
        asked.append(wanted)
        return dict.fromkeys(wanted, Resolution(("10.0.0.1",)))

    both = Names(ask, ("b", "c", "a"))
    assert both.resolve("a") == both.resolve("a") == both.resolve("c")
    assert both.resolve("later").addresses
    assert asked == [["a", "b", "c"], ["later"]]


def one(name: str, seconds: float = 4.0) -> Resolution:
    return ask_system([name], seconds)[name]


def test_the_real_system() -> None:
    assert set(one("localhost").addresses) & {"127.0.0.1", "::1"}
    assert one("npudoctor.invalid").failed in ("none", "again", "silent")
    assert one("." * 300).failed
    assert one("\udc80").failed
    assert one("a\0b").failed in ("none", "again")


def test_a_system_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "SCRIPT", "import time; time.sleep(60)")
    began = time.monotonic()
    assert one("anything", 0.3).failed == "silent"
    assert time.monotonic() - began < 5
    monkeypatch.setattr(names, "SCRIPT", "raise SystemExit(1)")
    assert one("anything").failed == "again"
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    assert one("anything").failed == "silent"


def test_one_that_is_silent_holds_the_others_up_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = 'def look(name):\n    if name.startswith("node"): import time; time.sleep(60)\n'
    monkeypatch.setattr(names, "SCRIPT", names.SCRIPT.replace("def look(name):\n", slow))
    began = time.monotonic()
    found = ask_system(["node1", "localhost", *(f"node{number}" for number in range(2, 9))], 1.5)
    assert found["localhost"].addresses
    assert {meaning.failed for name, meaning in found.items() if name != "localhost"} == {"silent"}
    assert time.monotonic() - began < 5


def test_all_peers_are_asked_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[str], float]] = []

    def ask(wanted: Sequence[str], seconds: float) -> dict[str, Resolution]:
        asked.append((list(wanted), seconds))
        return dict.fromkeys(wanted, Resolution(failed="silent"))

    monkeypatch.setattr(names, "ask_system", ask)
    options = Options(peers=("node2", "192.0.2.7", "node3"), timeout=2.0)
    host = fake_host(variables={"MASTER_ADDR": "node1"}, options=options)
    del host._parts["names"]
    assert [host.names.resolve(f"node{number}").failed for number in (3, 2, 1)] == ["silent"] * 3
    assert asked == [(["node3", "node2", "node1"], 0.8)]
