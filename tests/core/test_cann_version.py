"""Version numbers of CANN: their order, and what a range accepts."""

from __future__ import annotations

from typing import Optional

import pytest

from npudoctor.core.cann_version import accepts, is_at_least, sort_key, train

IN_ORDER = [
    "5.0.4",
    "5.1.RC1",
    "5.1.RC2.alpha008",
    "5.1.RC2",
    "6.0.RC1",
    "6.0.1",
    "7.0.RC1",
    "8.0.T6",
    "8.0.RC2.alpha001",
    "8.0.RC2",
    "8.0.RC2.1",
    "8.0.RC3",
    "8.0.0",
    "8.0.1",
    "8.1.RC1.alpha001",
    "8.1.RC1.beta1",
    "8.1.rc1",
    "8.5.0",
    "9.0.0-beta.2",
    "9.0.0-rc.1",
    "9.0.0",
    "9.2.0-beta.2",
]


def test_the_order_of_releases() -> None:
    keys = [sort_key(version) for version in IN_ORDER]
    assert None not in keys
    assert keys == sorted(key for key in keys if key is not None)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("version", ["", None, "20.2.rc1.x", "8", "latest", "8.1.RC", "7.7.0.1.238-x"])
def test_what_is_no_product_version(version: Optional[str]) -> None:
    assert sort_key(version) is None
    assert is_at_least(version, "8.1") is None


@pytest.mark.parametrize(
    ("version", "first", "answer"),
    [
        ("8.1.RC1", "8.1", True),
        ("8.0.0", "8.1", False),
        ("9.2.0-beta.2", "8.5", True),
        ("8.3.RC1", "8.5", False),
    ],
)
def test_release_lines(version: str, first: str, answer: bool) -> None:
    assert is_at_least(version, first) is answer


@pytest.mark.parametrize(
    ("wanted", "number", "answer"),
    [
        (">=7.6, <=7.7", "7.7.0.1.238", True),
        (">=7.6, <=7.7", "7.6.0.1.220", True),
        (">=7.6, <=7.7", "7.5.0.1.129", False),
        (">=7.6, <=7.7", "8.2.0.0.201", False),
        (">=7.6, <=8.2", "8.2.0.0.201", True),
        ("7.7", "7.7.0.1.238", True),
        ("7.7", "7.6.0.1.220", False),
        (">7.6,<7.8", "7.7", True),
        ("what", "7.7", None),
        (">=7.6", "what", None),
    ],
)
def test_ranges(wanted: str, number: str, answer: Optional[bool]) -> None:
    assert accepts(wanted, number) is answer


def test_trains() -> None:
    assert train("7.7.0.1.238") == "7.7"
    assert train("1.83.T8.0.B128") == "1.83"
    assert train("what") is train(None) is None
