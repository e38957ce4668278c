"""The command under test."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.marks import marking

from .command import Npudoctor

pytest_itemcollected = marking("whole")


@pytest.fixture
def npudoctor(tmp_path: Path) -> Npudoctor:
    """The command, with a home and drop-ins of its own."""
    return Npudoctor(tmp_path)
