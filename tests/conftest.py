"""What all tests share: a way to need something of the system."""

from __future__ import annotations

import os
import shutil
import signal
from typing import Callable

import pytest


def pytest_configure() -> None:
    """Under nohup, or in the background of a script, some signals are ignored, and so they would be in all
    that the tests start. A handler that does nothing stands for that here, and exec takes it away."""
    for number in (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_told: None)


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
