"""What fleets compare is what the checks declare: our own by their index, others by what their rows carry."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from npudoctor.checking.index import load_index
from npudoctor.core.model import Compared
from npudoctor.fleet import skew
from npudoctor.fleet.merge import Fleet, Merger
from npudoctor.fleet.reading import Found

from .carriers import ready

FIRMWARE = Compared("nic.firmware", "NIC firmware", complete=True)


def merged(*reports: dict[str, Any]) -> Fleet:
    merger = Merger(())
    merger.add_all([Found(report, "-") for report in reports])
    return merger.fleet()


def with_foreign(node: str, facts: object, compares: object, check: str = "our-nic") -> dict[str, Any]:
    """A report with a row of a check that is not built in."""
    made = ready(node)
    row = {"check": check, "status": "ok", "scope": "node", "facts": facts, "findings": []}
    made["results"].append({**row, "compares": compares})
    return made


def compared(*reports: dict[str, Any]) -> dict[str, list[object]]:
    """The values of all facts that differ."""
    fleet = merged(*reports)
    assert not fleet.uncompared
    return {one.fact: [value.value for value in (one.majority, *one.others)] for one in fleet.skew}


def test_no_check_is_named_where_fleets_are_compared() -> None:
    tree = ast.parse(Path(skew.__file__).read_text(encoding="utf-8"))
    named = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    ids = {check.id for check in load_index().values()} - {*skew._OF_REPORT}
    assert len(ids) > 50 and named & ids == set()


def test_a_check_of_others_declares_what_is_compared() -> None:
    reports = [with_foreign(f"n{n}", {"nic": {"firmware": "22.31"}}, [FIRMWARE.row()]) for n in range(3)]
    odd = with_foreign("odd", {"nic": {"firmware": "22.30"}}, [FIRMWARE.row()])
    assert compared(*reports, odd) == {"NIC firmware": ["22.31", "22.30"]}
    without = with_foreign("odd", {"nic": {}}, [FIRMWARE.row()])
    assert compared(*reports, without) == {"NIC firmware": ["22.31", None]}


def test_each_entry_of_a_table_is_a_fact_but_the_nodes_own() -> None:
    declared = [Compared("limits", own=("id",)).row(), Compared("ports.*.speed", "port speed").row()]

    def report(node: str, limit: int, speed: int) -> dict[str, Any]:
        ports = {"0": {"speed": 100}, "1": {"speed": speed}}
        return with_foreign(node, {"limits": {"memory": limit, "id": node}, "ports": ports}, declared)

    reports = [report(f"n{n}", 1, 100) for n in range(3)]
    assert compared(*reports, report("odd", 2, 25)) == {"memory": ["1", "2"], "port speed": ["100", "100 25"]}


def test_without_a_declaration_only_our_own_checks_are_compared() -> None:
    malformed: tuple[object, ...] = (
        *(None, [], {}, "text", 7, [7]),
        *([{"path": 7}], [{"name": "no path"}], [{"path": "x", "y": 1}], [{"path": "x", "own": "x"}]),
    )
    for compares in malformed:
        reports = [with_foreign(f"n{n}", {"x": n}, compares) for n in range(3)]
        assert compared(*reports) == {}, compares


def test_nobody_else_tells_a_fact_of_ours() -> None:
    """Neither under the id of a built-in check, nor by its name."""
    kernel = [Compared("x", "kernel").row()]
    assert compared(*(with_foreign(f"n{n}", {"x": str(n)}, kernel) for n in range(3))) == {}
    mine = [Compared("x", "mine").row()]
    assert compared(*(with_foreign(f"n{n}", {"x": str(n)}, mine, check="clock") for n in range(3))) == {}


def test_names_that_others_choose_are_bounded() -> None:
    def report(node: int) -> dict[str, Any]:
        declared = [Compared("x", f"fact {node} {k}").row() for k in range(50)]
        return with_foreign(f"n{node}", {"x": "1"}, declared)

    fleet = merged(*map(report, range(20)))
    assert any("names after the first 500" in fact for gap in fleet.uncompared for fact in gap.facts)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b", "1"),
        ("list.0.b", "2"),
        ("list.9.b", None),
        ("list.x.b", None),
        ("*.b", "1 3"),
        ("a.b.c", None),
        ("none", None),
        ("list.*", None),
    ],
)
def test_a_path_leads_to_what_stands_there(path: str, value: object) -> None:
    facts = {"a": {"b": "1"}, "c": {"b": 3}, "d": {"b": True}, "list": [{"b": "2"}]}
    assert skew._at(facts, path.split(".")) == value
