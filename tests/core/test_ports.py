"""Ports as text: what HCCL takes, what it refuses, what the kernel prints, and free stretches."""

from __future__ import annotations

import pytest

from npudoctor.core.ports import (
    mask,
    overlap,
    parse_base,
    parse_kernel_list,
    parse_kernel_range,
    parse_port,
    parse_spans,
    runs,
    spell,
    stretch,
    subtract,
    width,
)


@pytest.mark.parametrize(("text", "port"), [("1", 1), ("29500", 29500), ("65535", 65535), ("029500", 29500)])
def test_a_port(text: str, port: int) -> None:
    assert parse_port(text) == port


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "abc",
        "0",
        "65536",
        "70000",
        "-1",
        "+8118",
        "８１１８",
        "٨",
        "8118\n",
        " 8118",
        "8118 ",
        "8_118",
        "1e4",
    ],
)
def test_no_port(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_port(text)


def test_a_very_long_number_is_no_port() -> None:
    with pytest.raises(ValueError, match="65535"):
        parse_port("9" * 5000)


def test_a_base_takes_32_ports() -> None:
    assert parse_base("60000") == (60000, 60031)
    assert parse_base("1024") == (1024, 1055)
    assert parse_base("65504") == (65504, 65535)


@pytest.mark.parametrize("text", ["1023", "65505", "65520", "65521", "65530", "abc", "60000-60031", ""])
def test_no_base(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_base(text)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("auto", ()),
        ("61000", ((61000, 61000),)),
        ("61000-61050", ((61000, 61050),)),
        ("61000,61050-61100", ((61000, 61000), (61050, 61100))),
        ("61050-61100,61000", ((61000, 61000), (61050, 61100))),
        ("61000 - 61050, 61100", ((61000, 61050), (61100, 61100))),
        ("1-65535", ((1, 65535),)),
    ],
)
def test_ranges(text: str, spans: tuple[tuple[int, int], ...]) -> None:
    assert parse_spans(text) == spans


@pytest.mark.parametrize(
    "text",
    ",|61000,|61050-61000|61000-61050,61050-61100|61000,61000|0-10|61000-70000|AUTO|auto,61000|61000-|-61000|"
    "61000-61010-61020|６１０００|61000;61001|61000\t| auto|".split("|"),
)
def test_no_ranges(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_spans(text)


def test_what_the_kernel_prints() -> None:
    assert parse_kernel_range("32768\t60999\n") == (32768, 60999)
    assert parse_kernel_range(None) is None
    for text in ("nonsense", "1 2 3", "60999 32768", "1 99999999", ""):
        assert parse_kernel_range(text) is None
    assert parse_kernel_list("8080,9000-9010\n") == ((8080, 8080), (9000, 9010))
    assert parse_kernel_list("\n") == parse_kernel_list(None) == parse_kernel_list("a-b") == ()


def test_arithmetic() -> None:
    assert mask([(1, 2), (5, 9)])[5] and not mask([(1, 2), (5, 9)])[3]
    assert overlap([(60000, 60031)], [(32768, 60010), (60025, 60025)]) == ((60000, 60010), (60025, 60025))
    assert width([(1, 2), (5, 9)]) == 7
    assert subtract([(1, 9)], [(3, 4), (9, 12)]) == ((1, 2), (5, 8))
    assert subtract([(1, 9)], [(1, 9)]) == ()
    assert subtract([(1, 9)], [(20, 30)]) == ((1, 9),)
    assert runs([3, 1, 2, 2, 7]) == ((1, 3), (7, 7))
    assert spell([(1, 3), (7, 7)]) == "1-3,7"


def test_a_free_stretch_avoids_what_it_can() -> None:
    assert stretch(32, [(60000, 60031)], [(32768, 60999)], 60000) == (61000, 61031)
    assert stretch(32, [(61010, 61010)], [(32768, 60999)], 60000) == (61011, 61042)
    assert stretch(1, [(29500, 29501)], [], 29500) == (29502, 29502)


def test_a_free_stretch_where_all_is_to_be_avoided() -> None:
    assert stretch(32, [(60000, 60099)], [(1, 65535)], 60000) == (60100, 60131)
    assert stretch(32, [(60000, 65535)], [], 60000) == (10000, 10031)
    assert stretch(32, [(1, 65535)], [], 60000) is None
    # A hole that is one port too small is none.
    assert stretch(32, [(1, 65504)], [], 60000) is None
    assert stretch(32, [(1, 65503)], [], 60000) == (65504, 65535)
