"""A Python of root's for the tests of what root starts."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.room import open_place
from tests.support.roots import python_in


@pytest.fixture(scope="module")
def original() -> Iterator[Path]:
    """A Python of root's, copied once."""
    with tempfile.TemporaryDirectory(dir=open_place()) as folder:
        python_in(Path(folder, "base"))
        yield Path(folder, "base")


@pytest.fixture
def base(original: Path, tmp_path: Path) -> Path:
    """One of its own for each test."""
    subprocess.run(["cp", "-a", "--reflink=auto", str(original), str(tmp_path / "base")], check=True)
    return tmp_path / "base"


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """What is there once code of another user was run."""
    return tmp_path / "mark"
