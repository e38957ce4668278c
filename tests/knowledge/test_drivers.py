"""What is published of CANN and drivers: where a pair stands, and what a site adds."""

from __future__ import annotations

from pathlib import Path

import pytest

from npudoctor.knowledge.drivers import find_declaration
from npudoctor.knowledge.site import Knowledge
from npudoctor.knowledge.tables import KnowledgeRow, built_in_rows

ROWS = built_in_rows("cann_driver", "driver")


def verdict(cann: str, driver: str, rows: list[KnowledgeRow] = ROWS) -> str:
    told = find_declaration(rows, cann, driver)
    return told.verdict if told else ""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['cann'][0]}-{row['drivers'][0]}")
def test_every_row_is_found_again(row: KnowledgeRow) -> None:
    wanted = "compatible" if row.values.get("compatible", True) else "incompatible"
    for cann in row.texts("cann"):
        for driver in row.texts("drivers"):
            assert verdict(cann.replace(".x", ".0"), driver.replace(".X", ".0").lower()) == wanted
    assert row["source"]
    assert row["as_of"]


@pytest.mark.parametrize(
    ("cann", "driver", "answer"),
    [
        ("6.0.1", "22.0.4", ""),
        ("7.0.RC1", "22.0.4", ""),
        ("8.3.RC2", "23.0.7", "not-listed"),
        ("8.3.RC2", "25.3.0", "compatible"),
        ("8.1.RC1", "99.0.0", "newer-driver"),
        ("99.0.0", "25.5.1", "newer-cann"),
    ],
)
def test_beside_the_rows(cann: str, driver: str, answer: str) -> None:
    assert verdict(cann, driver) == answer


def test_what_is_recommended() -> None:
    told = find_declaration(ROWS, "8.1.RC1", "23.0.7")
    assert told is not None
    assert (told.recommended, told.nearest) == (("25.0.RC1",), ("24.1.RC1",))


def test_a_site_adds_rows(tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text(
        '[[cann_driver.driver]]\ncann = ["8.1.RC1"]\ndrivers = ["23.0.7"]\n'
        'source = "tried"\nas_of = "2026-11"\n'
        '[[cann_driver.driver]]\ncann = ["8.1.RC1"]\ndrivers = ["25.3.X"]\ncompatible = false\n'
        'source = "hangs"\nas_of = "2026-11"\n'
    )
    knowledge = Knowledge(str(tmp_path))
    rows = knowledge.rows("cann_driver", "driver")
    assert knowledge.broken() == []
    assert verdict("8.1.RC1", "23.0.7", rows) == "compatible"
    assert verdict("8.1.RC1", "25.3.0", rows) == "incompatible"
    assert verdict("8.1.RC1", "25.3.0") == "compatible"
