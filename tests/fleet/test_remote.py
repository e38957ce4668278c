"""What a node's clock is known to be, by when it was asked and when its answer came."""

from __future__ import annotations

import time

import pytest

from npudoctor.fleet.gathering import Gathering, NodeAnswer
from npudoctor.fleet.merge import Merger
from npudoctor.fleet.reading import ReceivedReport
from npudoctor.fleet.remote import AnswerFrame
from npudoctor.fleet.request import Request

from .carriers import ready

MARK = "npudoctor-0123456789abcdef"


@pytest.mark.parametrize(
    ("shift", "told"), [(0, "in step"), (1, "in step"), (90, "+90 s"), (-90, "-90 s"), (86400, "+86400 s")]
)
def test_a_clock_that_is_off_is_a_deviation(shift: int, told: str) -> None:
    frame, asked = AnswerFrame(MARK), time.time() - 5  # five seconds until somebody had time for it
    frame.add(f"{MARK} begin {int(time.time()) + shift}".encode())
    ahead = frame.clock_lead(asked)
    assert ahead is not None and frame.has_begun
    merger = Merger()
    for number in range(3):
        merger.add(ReceivedReport(ready(f"node{number}"), "", f"node{number}", 0.0))
    merger.add(ReceivedReport(ready("late"), "", "late", ahead - 5 * (shift < 0)))
    skews = {
        skew.fact: [(other.value, other.nodes) for other in skew.deviations] for skew in merger.fleet().skew
    }
    if told == "in step":
        assert skews == {}
    else:
        ((value, nodes),) = skews["clock"]
        assert nodes == ("late",) and value is not None
        assert abs(int(value.split()[0]) - shift) <= 6


@pytest.mark.parametrize("time_told", ["", "soon", "-5", "9" * 40, "\x1b[31m"])
def test_who_tells_no_time_has_none(time_told: str) -> None:
    frame = AnswerFrame(MARK)
    frame.add(f"{MARK} begin {time_told}".encode())
    assert frame.clock_lead(0.0) is None


@pytest.mark.parametrize(
    ("status", "carried", "hinted"), [(127, b"", True), (126, b"", True), (127, b"x", False), (1, b"", False)]
)
def test_a_node_without_npudoctor_is_told_how_to_get_it_there(
    status: int, carried: bytes, hinted: bool
) -> None:
    answers: list[NodeAnswer] = []
    gathering = Gathering(Request(("n1",), ("npudoctor",), 5.0, 1, 5.0, carried=carried), answers.append)
    gathering.begin("n1")
    for line in (f"{gathering.mark} begin 1", f"{gathering.mark} end {status}"):
        gathering.hear("n1", line.encode())
    gathering.frame("n1").add_noise(b"sh: 1: npudoctor: not found")
    gathering.end("n1", 0)
    (answer,) = answers
    assert f"(status {status}): sh: 1: npudoctor: not found" in answer.why
    assert answer.why.endswith("; --push --file npudoctor.pyz copies it to the node") == hinted
