"""Fixtures of the tests with real wheels; those with MindSpore's servers run in namespaces of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, NoReturn, Optional

import pytest
from tests.support.marks import marking

from . import environment_table, isolation, mindspore_env, staged
from .cache_server import CacheServer, free_port
from .mindspore_env import MindSpore

pytest_itemcollected = marking("once", "whole")

INSIDE = "REAL_MINDSPORE_INSIDE"
REPORT = "NPUDOCTOR_REAL_REPORT"  # a file that what the tests saw is appended to
TEST_SECONDS = 600


def lacking(reason: str) -> NoReturn:
    """Skip the test; in CI fail it, as there a test that does not run hides what it should have shown."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (CI=true: not skipped)", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def mindspore(namespaces: None) -> MindSpore:
    """The real one."""
    try:
        return mindspore_env.provide()
    except mindspore_env.Unavailable as error:
        lacking(str(error))


@pytest.fixture(scope="session")
def namespaces() -> None:
    """They can be had here."""
    # Asked before the wheel is fetched: the servers must be root's, as namespaces are for root only.
    if os.geteuid() != 0:
        lacking("needs root")
    try:
        subprocess.run([*isolation.UNSHARE, "true"], check=True)
    except (OSError, subprocess.SubprocessError) as error:
        lacking(f"no namespaces of our own: {error}")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """npudoctor, for all to read."""
    return staged.library(tmp_path_factory.mktemp("library"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Optional[bool]:
    """Outside, a test's call is the same test inside: pytest again, isolated."""
    if INSIDE in os.environ or not pyfuncitem.get_closest_marker("real_mindspore"):
        return None
    tmp_path, installed = (pyfuncitem.funcargs[name] for name in ("tmp_path", "mindspore"))
    assert isinstance(tmp_path, Path)
    assert isinstance(installed, MindSpore)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    keep = [
        mindspore_env.ROOT,
        Path(sys.prefix),
        Path(sys.base_prefix),
        installed.folder,
        installed.python.resolve().parents[1],
    ]
    choice = ["-m", "real_mindspore", pyfuncitem.nodeid]
    command = isolation.command(fresh, keep, ["-q", "-s", "-p", "no:cacheprovider", *choice])
    said, status = ended(command, pyfuncitem.config.rootpath)
    collect(fresh / "report.txt")
    shutil.rmtree(fresh)
    if status:
        pytest.fail(f"inside its namespaces the test exited with status {status}:\n{said}", pytrace=False)
    sys.stdout.write(said)
    return True


def ended(command: list[str], folder: Path) -> tuple[str, int]:
    """Run the isolated test; it ends what it started when it is terminated, so it is not killed."""
    # CI: inside nothing may be skipped, as that would look like success from outside.
    environment = {**os.environ, INSIDE: "1", REPORT: "/tmp/report.txt", "CI": "true"}
    environment.pop("TMPDIR", None)
    with subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            said, _ = process.communicate(timeout=TEST_SECONDS)
        finally:
            process.terminate()
    return said, process.returncode


def collect(inside: Path) -> None:
    """Append what the isolated test recorded to the file that the caller named."""
    if REPORT in os.environ and inside.exists():
        with open(os.environ[REPORT], "a", encoding="utf-8") as report:
            report.write(inside.read_text(encoding="utf-8"))


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`record(title, text)`: show with -s, and keep in the report."""

    def write(title: str, text: str) -> None:
        block = f"== {request.node.name}: {title}\n{text.rstrip()}\n\n"
        sys.stdout.write("\n" + block)
        with open(os.environ[REPORT], "a", encoding="utf-8") as report:
            report.write(block)

    return write


@pytest.fixture
def new_server(mindspore: MindSpore, tmp_path: Path) -> Callable[..., CacheServer]:
    """`new_server()`, or with the name of a spill directory: one that runs; it ends with the isolation."""

    def start(spill: str = "") -> CacheServer:
        spill_root = tmp_path / spill if spill else None
        if spill_root:
            spill_root.mkdir(exist_ok=True)
        server = CacheServer(mindspore, free_port(), spill_root)
        server.start()
        return server

    return start


@dataclass(frozen=True)
class Ended:
    """How npudoctor ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """stdout, which is one JSON value and nothing else."""
        value: dict[str, Any] = json.loads(self.stdout)
        return value

    def codes(self) -> set[str]:
        """The codes of all findings of the check about cache servers."""
        return {finding["code"] for finding in self.findings()}

    def findings(self, check: str = "cache-server") -> list[dict[str, Any]]:
        """All findings of a check."""
        (row,) = (row for row in self.json["results"] if row["check"] == check)
        found: list[dict[str, Any]] = row["findings"]
        return found


@pytest.fixture
def npudoctor(tmp_path: Path) -> Callable[..., Ended]:
    """`npudoctor("check", ...)`: the command as a user has it, without our caller's settings."""
    state = tmp_path / "state"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "XDG_STATE_HOME": str(state),
        "NPUDOCTOR_CHECKS_DIR": "",
    }

    def run(*arguments: str) -> Ended:
        command = [sys.executable, "-m", "npudoctor", *arguments]
        done = subprocess.run(
            command, cwd="/", env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table of the broken environments: what was said of each, and how many of each kind."""
    reports = (report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind))
    kept = (pair for report in reports for pair in report.user_properties)
    rows = [environment_table.Row(*value) for key, value in kept if key == "environment"]
    if rows:
        terminalreporter.section("real environments")
        for line in environment_table.lines(rows):
            terminalreporter.write_line(line)
