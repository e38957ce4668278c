"""What all tests share: a way to need something of the system."""

from __future__ import annotations

import os
import shutil
from typing import Callable

import pytest


def _lack(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (not skipped, as CI=true)", pytrace=False)
    pytest.skip(reason)


@pytest.fixture
def lack() -> Callable[[str], None]:
    """`lack("no FUSE")` skips the test; in CI it fails: a test that does not run there hides something."""
    return _lack


@pytest.fixture
def need() -> Callable[..., None]:
    """`need("ipcs", "ss")`: go on only where these programs are installed; `make test-deps` installs them."""

    def programs(*names: str) -> None:
        missing = [name for name in names if shutil.which(name) is None]
        if missing:
            _lack(f"not installed: {', '.join(missing)}")

    return programs


@pytest.fixture(autouse=True)
def _only_as_root(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("needs_root") and os.geteuid() != 0:
        _lack("needs root")
