"""The command under test."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..cli.command import Npudoctor  # noqa: TID252


@pytest.fixture
def npudoctor(tmp_path: Path) -> Npudoctor:
    """The command, with a home of its own."""
    return Npudoctor(tmp_path)
