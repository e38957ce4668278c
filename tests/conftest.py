"""What all tests share: a way to need something of the system, and a folder that root trusts."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

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


# They play with the same real users and with all processes of the machine: two at a time would meet.
_ALONE = tuple(f"tests/{folder}/" for folder in ("checks/leftovers", "fixing", "proof", "torture"))
# Each has namespaces of its own, and mostly waits for servers and clients.
_BY_TEST = ("tests/real/test_real_mindspore.py",)
# Seconds that a test takes at most times, by what its path begins with; others take a tenth of one.
_SECONDS = {
    "tests/test_packaging.py": 6.0,
    "tests/real/": 20.0,
    "tests/fleet/test_slurm": 4.0,
    "tests/integrations/test_slurm": 4.0,
    "tests/checks/network/test_firewall": 8.0,
    "tests/cli/": 1.5,
    "tests/checks/deep/": 1.5,
    "tests/environment/": 0.8,
    "tests/scenarios/": 0.1,
}


def _scope(nodeid: str) -> str:
    """What of the tests stays in one process."""
    path = nodeid.partition("::")[0]
    return "machine" if path.startswith(_ALONE) else nodeid if path in _BY_TEST else path


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under pytest-xdist what takes longest begins first: else one process works alone in the end."""
    if not hasattr(config, "workerinput"):
        return
    seconds: dict[str, float] = {}
    for item in items:
        known = (value for begin, value in _SECONDS.items() if item.nodeid.startswith(begin))
        scope = _scope(item.nodeid)
        seconds[scope] = seconds.get(scope, 0.0) + next(known, 0.1)
    # By name where two are alike: all processes must have the same order.
    items.sort(key=lambda item: (-seconds[_scope(item.nodeid)], _scope(item.nodeid)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """With pytest-xdist (`-n 2`) a file stays in one process, and so do these folders.

    Not by its marks for groups (`--dist loadgroup`): xdist 3.8 hands them on in a name that pytest 9.2 does
    not have any more, and then no test has a group.
    """
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        """One process for each file, and one for all files that meet on the machine."""

        def _split_scope(self, nodeid: str) -> str:
            return _scope(nodeid)

    config.option.loadscopereorder = False  # it would sort by how many tests there are in a file
    return ByFile(config, log)


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

    return provide(tmp_path_factory.mktemp("one-file"))


@pytest.fixture(autouse=True)
def _only_as_root(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("needs_root") and os.geteuid() != 0:
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
