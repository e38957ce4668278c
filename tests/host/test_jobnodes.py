"""How many nodes a job has, and whether its ranks meet here."""

from __future__ import annotations

import sys
import time
from typing import Optional

import pytest

from npudoctor.host import names
from npudoctor.host.jobnodes import is_here, is_rank_zero, node_count
from npudoctor.host.names import Meaning, Names, ask_system
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
    asked = []

    def ask(name: str) -> Meaning:
        asked.append(name)
        return Meaning(("10.0.0.1",))

    both = Names(ask)
    assert both.meaning("a") == both.meaning("a")
    assert asked == ["a"]


def test_the_real_system() -> None:
    assert set(ask_system("localhost").addresses) & {"127.0.0.1", "::1"}
    assert ask_system("npudoctor.invalid").failed in ("none", "again", "silent")
    assert ask_system("." * 300).failed
    assert ask_system("a\0b").failed == "again"


def test_a_system_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "SCRIPT", "import time; time.sleep(60)")
    monkeypatch.setattr(names, "SECONDS", 0.3)
    began = time.monotonic()
    assert ask_system("anything").failed == "silent"
    assert time.monotonic() - began < 5
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    assert ask_system("anything").failed == "silent"
