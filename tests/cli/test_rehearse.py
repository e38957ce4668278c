"""`rehearse`: its list, its usage errors, and what goes where."""

from __future__ import annotations

import pytest

from npudoctor.cli.rehearse import _find_fault
from npudoctor.rehearsal.faults import FAULTS

from .command import Npudoctor


def test_the_list(npudoctor: Npudoctor) -> None:
    done = npudoctor("rehearse", "--list")
    assert (done.status, done.err) == (0, "")
    assert all(fault.name in done.out and fault.code in done.out for fault in FAULTS.values())
    document = npudoctor("rehearse", "--list", "--format", "json").json
    assert document["schema"] == "npudoctor.rehearsals/1"
    assert [row["code"] for row in document["faults"]] == [fault.code for fault in FAULTS.values()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "specify a fault; to list them:"),
        (("slow-clok",), "slow-clock"),
        (("npu-health.alrm",), "npu-health.alarm"),
        (("slow-clock", "--format", "json"), "--format"),
        (("--lsit",), "--list"),
        (("slow-clock", "--", "--output", "x.json"), "redirect standard output"),
    ],
)
def test_bad_usage_is_one_line(npudoctor: Npudoctor, words: tuple[str, ...], said: str) -> None:
    done = npudoctor("rehearse", *words)
    assert (done.status, done.out) == (64, "")
    assert said in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("name", ["slow-clock", "clock-source.slow", "clock-source"])
def test_a_fault_is_found_by_its_name_its_code_and_its_check(name: str) -> None:
    assert _find_fault(name).name == "slow-clock"
