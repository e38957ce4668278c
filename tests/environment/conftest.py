"""The command under test."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.marks import marking

from ..cli.command import Npudoctor  # noqa: TID252

pytest_itemcollected = marking("once", "whole")


@pytest.fixture
def npudoctor(tmp_path: Path) -> Npudoctor:
    """The command, with a home of its own."""
    return Npudoctor(tmp_path)
