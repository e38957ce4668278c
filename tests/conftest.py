"""What all tests share: a way to need something of the system, and a folder that root trusts."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

import pytest

_APART = pytest.StashKey[bool]()
_IN_MEMORY = pytest.StashKey[bool]()
# Where CycloneDX' validator has brought this package, "import jsonschema" makes the grammar of IRIs: five
# seconds in each process, for a format that no schema of ours names.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]


def pytest_configure(config: pytest.Config) -> None:
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
    if hasattr(config, "workerinput"):
        from tests.support.workers import report_less

        report_less(config)
    if getattr(config.option, "tx", None):
        from tests.support.workers import set_apart

        # Not by itself: the first worker sees the processes of all others, and left-overs that it judges
        # while some of these end were at times not proven (five of 609 tests, in one of three runs).
        wanted = os.environ.get("NPUDOCTOR_WORKERS_APART") == "1"
        config.stash[_APART] = wanted and set_apart(config)
        if not config.option.basetemp:
            from tests.support.room import keep_in_memory

            config.stash[_IN_MEMORY] = keep_in_memory()


def pytest_report_header(config: pytest.Config) -> Optional[str]:
    """Where the folders are that a failed test leaves."""
    if config.stash.get(_IN_MEMORY, False):
        return "temporary folders: in memory, gone with this run (NPUDOCTOR_TESTS_ON_DISK=1 leaves them)"
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Under pytest-xdist each worker knows whether the workers have namespaces of their own."""
    node.workerinput["apart"] = node.config.stash[_APART]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What collecting makes stays to the end: the collector of garbage need not walk through it."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under pytest-xdist what takes longest begins first."""
    if hasattr(config, "workerinput"):
        from tests.support.workers import longest_first

        longest_first(items, config.workerinput["apart"])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Who takes which tests (tests/support/workers.py)."""
    from tests.support.workers import Sharing

    return Sharing(config, log, config.stash[_APART])


def pytest_make_parametrize_id(val: object, argname: str) -> Optional[str]:
    """Packed bytes hold the time at which they were packed: in a name, two processes of pytest-xdist would
    see two tests."""
    return argname if isinstance(val, bytes) and (len(val) > 40 or b"\0" in val) else None


def _lack(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (not skipped, as CI=true)", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def lack() -> Callable[[str], None]:
    """`lack("no FUSE")` skips the test; in CI it fails: a test that does not run there hides something."""
    return _lack


@pytest.fixture(scope="session")
def need() -> Callable[..., None]:
    """`need("ipcs", "ss")`: go on only where these programs are installed; `make test-deps` installs them."""

    def programs(*names: str) -> None:
        missing = [name for name in names if shutil.which(name) is None]
        if missing:
            _lack(f"not installed: {', '.join(missing)}")

    return programs


@pytest.fixture(scope="session")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """npudoctor.pyz."""
    from tests.support.one_file import provide

    return provide(tmp_path_factory)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Not a fixture: that takes a tenth of a millisecond, of fourteen thousand tests each."""
    if os.geteuid() != 0 and item.get_closest_marker("needs_root"):
        _lack("needs root")


@pytest.fixture
def trusted(tmp_path: Path) -> Iterator[Path]:
    """A folder that nobody else may write, up to "/": from /tmp root runs nothing."""
    if os.geteuid() != 0:
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="npudoctor-test-", dir="/var/lib"))
    yield folder
    shutil.rmtree(folder)
