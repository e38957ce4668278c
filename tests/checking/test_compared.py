"""What a check declares to be compared is checked when it is declared, and again wherever it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from npudoctor import Compared, Host, Scope, Severity, check
from npudoctor.checking.check import parse_compared
from npudoctor.checking.index import load_index

ROWS = [
    Compared("a.b", "the fact"),
    Compared("a.*", "all of them", complete=True),
    Compared("table", own=("x", "y")),
    Compared(""),
]


def declare(compares: Any) -> Any:
    def question(host: Host) -> Iterator[Any]:
        """Manual."""
        yield from ()

    return check("a", scope=Scope.NODE, codes={"a.bad": Severity.ERROR}, compares=compares)(question)


@pytest.mark.parametrize("compared", ROWS, ids=lambda compared: compared.path)
def test_a_row_says_all_of_it(compared: Compared) -> None:
    assert parse_compared(compared.row()) == compared
    assert declare([compared]).compares == (compared,)


def test_what_is_as_usual_is_left_out() -> None:
    assert [sorted(compared.row()) for compared in ROWS] == [
        ["name", "path"],
        ["complete", "name", "path"],
        ["own", "path"],
        ["path"],
    ]


@pytest.mark.parametrize(
    "compares",
    [
        *("a.b", 5, {"a": "b"}, ("a.b",), (None,), (Compared("x"),) * 51, (Compared("x" * 101, "y"),)),
        *((Compared("", "a name"),), (Compared("x", "y" * 101),), (Compared("x", own=("z" * 101,)),)),
    ],
)
def test_what_nothing_can_be_compared_by_is_refused(compares: Any) -> None:
    with pytest.raises(ValueError, match="check 'a'"):
        declare(compares)


@pytest.mark.parametrize(
    "row",
    [None, 5, [], {}, {"name": "x"}, {"path": 5}, {"path": "x", "own": "text"}, {"path": "x", "more": 1}],
)
def test_a_row_of_something_else_is_refused(row: Any) -> None:
    with pytest.raises(ValueError):
        parse_compared(row)


def test_no_two_checks_but_those_of_cann_tell_one_fact() -> None:
    """Which of them counts would be chance."""
    names = [compared.name for check in load_index().values() for compared in check.compares if compared.name]
    assert sorted({name for name in names if names.count(name) > 1}) == ["CANN"]
