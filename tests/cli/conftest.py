"""The command under test, and a folder whose programs root runs too."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .command import Npudoctor


@pytest.fixture
def npudoctor(tmp_path: Path) -> Npudoctor:
    """The command, with a home and drop-ins of its own."""
    return Npudoctor(tmp_path)


@pytest.fixture
def trusted(tmp_path: Path) -> Iterator[Path]:
    """A folder that nobody else may write, up to "/": from /tmp root runs nothing."""
    if os.geteuid() != 0:
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="npudoctor-test-", dir="/var/lib"))
    yield folder
    shutil.rmtree(folder)
