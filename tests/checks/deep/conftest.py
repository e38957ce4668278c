"""Where a framework of a few lines lies, and where its job is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for packages; the job is started in another one."""
    (tmp_path / "job").mkdir()
    (tmp_path / "site").mkdir()
    monkeypatch.chdir(tmp_path / "job")
    yield tmp_path / "site"
