"""mindspore.toml against the published wheels it was distilled from."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Optional

import pytest

from npudoctor.knowledge.frameworks import find_newest_accepting
from npudoctor.knowledge.site import Knowledge
from npudoctor.knowledge.tables import find_required_scipy, load_table, parse_toml

with Path(__file__).with_name("mindspore_wheels.csv").open(encoding="utf-8") as file:
    WHEELS = [(row["version"], row["scipy"]) for row in csv.DictReader(file)]


@pytest.mark.parametrize(("version", "scipy"), sorted(set(WHEELS)))
def test_it_says_what_the_wheel_says(version: str, scipy: str) -> None:
    required = find_required_scipy(version)
    assert required is not None
    assert required.specifier == scipy


@pytest.mark.parametrize(
    ("version", "scipy"),
    [("1.10.1", ">=1.5.2"), ("2.0.0a0", ">=1.5.4"), ("2.10.0", ">=1.5.4"), ("2.11.0", None)],
)
def test_the_ends_of_the_rows(version: str, scipy: Optional[str]) -> None:
    required = find_required_scipy(version)
    assert (required.specifier if required else None) == scipy


def test_what_is_no_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        find_required_scipy("nonsense")


@pytest.mark.parametrize(
    ("python", "release"),
    [(None, "2.10.0"), ("3.11.4", "2.10.0"), ("3.9.1", "2.9.0"), ("3.13.0", None)],
)
def test_no_release_that_has_no_wheel_is_offered(python: Optional[str], release: Optional[str]) -> None:
    assert find_newest_accepting(Knowledge(), "8.5.0", python) == release


def test_every_row_has_its_source_and_its_time() -> None:
    for row in load_table("mindspore")["scipy"]:
        assert set(row) == {"versions", "scipy", "source", "as_of"}
        assert row["source"]
        assert row["as_of"].startswith("20")


def test_toml_that_is_none_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="Invalid value"):
        parse_toml("a = [")
