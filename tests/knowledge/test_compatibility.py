"""The four answers about two versions, and the two shades of them."""

from __future__ import annotations

import pytest

from npudoctor.knowledge.compatibility import Compatibility, Pair, PairJudgement, judge_pair
from npudoctor.knowledge.frameworks import component_of, product_of, torch_npu_pairs
from npudoctor.knowledge.site import Knowledge
from npudoctor.knowledge.versions import cann_order, is_same_patch_line

ROWS = [
    Pair("2.0.0", ("8.0.0",), "a list", "2026-01"),
    Pair("2.1.0", ("8.1.RC1",), "a list", "2026-02"),
    Pair("2.1.0.post2", ("8.3.RC1", "8.2.RC1"), "a list", "2026-03"),
    Pair("2.1.0.post4", ("8.5.0",), "a list", "2026-04"),
    Pair("2.3.0", ("9.0.0",), "a list", "2026-05"),
    Pair("2.0.0", ("7.0.0",), "a test of ours", "2026-06", compatible=False),
]


@pytest.mark.parametrize(
    ("release", "cann", "answer", "nearest"),
    [
        ("2.0.0", "8.0.0", Compatibility.COMPATIBLE, ["2.0.0"]),
        ("2.0.0+git1", "8.0.0", Compatibility.COMPATIBLE, ["2.0.0"]),
        ("2.1.0.post4", "8.5.2", Compatibility.COMPATIBLE, ["2.1.0.post4"]),
        ("2.1.0", "8.1.rc1", Compatibility.COMPATIBLE, ["2.1.0"]),
        ("2.0.0", "7.0.0", Compatibility.INCOMPATIBLE, ["2.0.0"]),
        ("2.0.0", "8.5.0", Compatibility.BETWEEN, ["2.0.0"]),
        ("2.1.0", "6.0.1", Compatibility.BETWEEN, ["2.1.0"]),
        ("2.1.0.post3", "8.0.0", Compatibility.BETWEEN, ["2.1.0.post2", "2.1.0.post4"]),
        ("2.1.0.post3", "8.3.RC2", Compatibility.BESIDE, ["2.1.0.post2", "2.1.0.post4"]),
        ("2.2.0", "9.0.0", Compatibility.BESIDE, ["2.1.0.post4", "2.3.0"]),
        ("1.0", "8.0.0", Compatibility.BETWEEN, ["2.0.0"]),
        ("2.3.0", "9.0.1", Compatibility.COMPATIBLE, ["2.3.0"]),
        ("2.3.0", "9.1.0", Compatibility.NEWER, ["2.3.0"]),
        ("2.1.0.post5", "8.5.0", Compatibility.NEWER, ["2.1.0.post4"]),
        ("2.1.0.post5", "8.1.RC1", Compatibility.BETWEEN, ["2.1.0.post4"]),
        ("2.1.0.post5", "8.5.1", Compatibility.NEWER, ["2.1.0.post4"]),
        ("2.4.0", "9.0.1", Compatibility.NEWER, ["2.3.0"]),
        ("2.4.0", "8.5.0", Compatibility.BETWEEN, ["2.3.0"]),
        ("two", "8.5.0", Compatibility.STRANGE, []),
        ("2.3.0", "eight", Compatibility.STRANGE, []),
        ("2.3.0", "", Compatibility.STRANGE, []),
    ],
)
def test_the_answers(release: str, cann: str, answer: Compatibility, nearest: list[str]) -> None:
    judged = judge_pair(ROWS, release, cann)
    assert (judged.answer, [row.release for row in judged.rows]) == (answer, nearest)


def test_a_final_release_is_not_newer_than_its_candidates() -> None:
    rows = [Pair("0.10.0rc1", ("8.2.RC1",), "", ""), Pair("0.11.0", ("8.3.RC1",), "", "")]
    told = judge_pair(rows, "0.10.0", "8.2.RC1")
    assert (told.answer, len(told.rows)) == (Compatibility.BESIDE, 2)
    assert judge_pair(rows, "0.10.0", "8.1.RC1").answer is Compatibility.BETWEEN


def test_which_of_the_two_is_newer() -> None:
    assert judge_pair(ROWS, "2.0.0", "9.1.0").newer_cann
    assert not judge_pair(ROWS, "2.4.0", "9.0.0").newer_cann


def test_x_stands_for_any_number() -> None:
    rows = [Pair("2.0", ("8.5.X",), "", ""), Pair("2.2", ("9.0.X", "9.1.x"), "", "")]
    for release, cann, answer in (
        ("2.0", "8.5.0-beta.1", Compatibility.COMPATIBLE),
        ("2.0", "8.5.12", Compatibility.COMPATIBLE),
        ("2.2", "9.1.3", Compatibility.COMPATIBLE),
        ("2.1", "8.5.9", Compatibility.BESIDE),
        ("2.0", "9.1.9", Compatibility.BETWEEN),
        ("2.0", "9.2.0-beta.1", Compatibility.NEWER),
    ):
        assert judge_pair(rows, release, cann).answer is answer, (release, cann)


def test_a_listed_release_whose_neighbours_suit() -> None:
    rows = [
        Pair("2.0", ("8.5.0", "9.1.0"), "", ""),
        Pair("2.1", ("9.0.0",), "", ""),
        Pair("2.2", ("8.5.0",), "", ""),
    ]
    judged = judge_pair(rows, "2.1", "8.5.0")
    assert (judged.answer, judged.rows) == (Compatibility.BESIDE, (rows[0], rows[2]))
    assert judge_pair(rows, "2.1", "9.1.0").answer is Compatibility.BETWEEN
    assert judge_pair(rows, "2.2", "9.0.0").answer is Compatibility.BESIDE  # the newest: as the one before
    assert judge_pair(rows, "2.0", "9.0.0").answer is Compatibility.BETWEEN


def test_no_rows_no_answer() -> None:
    assert judge_pair([], "2.0.0", "8.0.0") == PairJudgement(Compatibility.STRANGE)


def test_the_newest_of_the_rows_dates_the_answer() -> None:
    assert judge_pair(ROWS, "2.1.0.post3", "8.0.0").as_of == "2026-04"


def test_every_row_of_ours_goes_with_itself() -> None:
    pairs = torch_npu_pairs(Knowledge())
    assert len(pairs) > 72
    for row in pairs:
        for cann in row.cann:
            there = cann.replace(".X", ".7")
            assert cann_order(there), cann
            assert judge_pair(pairs, row.release, there).answer is Compatibility.COMPATIBLE


def test_the_order_of_cann() -> None:
    told = (
        "7.0.1 8.0.T6 8.0.RC1 8.0.0 8.1.RC1.alpha001 8.1.RC1 8.3.RC2 8.5.0 9.0.0-beta.2 9.0.0 9.0.1".split()
    )
    assert sorted(set(told), key=lambda version: cann_order(version) or ()) == told
    assert cann_order("8.1.RC1.beta1") == cann_order("8.1.rc1")
    assert is_same_patch_line("8.5.0", "8.5.1") and not is_same_patch_line("8.3.RC1", "8.3.RC2")


@pytest.mark.parametrize(
    ("component", "product"),
    [("7.7.0.1.238", "8.1.RC1"), ("7.5.0.1.999", "8.0.RC3"), ("7.6.0.1.221", "8.0.0"), ("1.79.1", "5.0.3")],
)
def test_the_product_of_a_component(component: str, product: str) -> None:
    assert product_of(Knowledge(), component) == product


def test_the_component_of_a_product() -> None:
    assert component_of(Knowledge(), "8.0.rc3") == "7.5.0.1.129"
    assert component_of(Knowledge(), "9.2.0") == "9.2"
    assert component_of(Knowledge(), "9.3.0") == "9.3.0"
    assert component_of(Knowledge(), "7.0.RC1") is None
    assert product_of(Knowledge(), "3.3.3") is None
