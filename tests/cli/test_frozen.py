"""A file system that never answers, a tool that is stopped: the report, or the 64, comes in time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable

import pytest
from tests.support.roots import NOTE, python_that

from .beside_frozen import runner
from .command import Done, Npudoctor

pytestmark = pytest.mark.slow

DEADLINE = 8.0
LIMITS = ("--format", "json", "--expect", "none", "--timeout", "5", "--deadline", str(DEADLINE))


@pytest.fixture
def frozen(npudoctor: Npudoctor, tmp_path: Path, lack: Callable[[str], None]) -> Callable[..., Done]:
    return runner(npudoctor, tmp_path / "frozen", tmp_path, DEADLINE, lack)


@pytest.mark.needs_root
@pytest.mark.parametrize(
    "arguments",
    [
        ("--root", "FROZEN"),
        ("--root", "FROZEN/image"),
        ("--python", "FROZEN/bin/python3"),
        ("--config", "FROZEN/config.toml"),
        ("--output", "FROZEN/report"),
    ],
)
def test_a_path_of_an_option_that_never_answers_is_64(
    frozen: Callable[..., Done], arguments: tuple[str, ...]
) -> None:
    done = frozen("check", *LIMITS, *arguments)
    assert (done.status, done.out, done.err.count("\n")) == (64, "", 1), done
    assert arguments[0] in done.err and "does not answer within" in done.err


@pytest.mark.needs_root
def test_a_frozen_entry_of_path_costs_no_report(frozen: Callable[..., Done]) -> None:
    done = frozen("check", *LIMITS, PATH="FROZEN/bin:/usr/bin:/bin")
    assert done.json["target"]["python_from"] in ("path", "own"), done
    assert done.row("accelerator")["status"] == "ok"
    assert {row["status"] for row in done.json["results"]} <= {"ok", "problem", "skipped", "unknown"}


@pytest.mark.needs_root
def test_a_frozen_home_is_a_warning(frozen: Callable[..., Done]) -> None:
    done = frozen("check", *LIMITS, HOME="FROZEN")
    assert "warning" in done.err and "does not answer within" in done.err
    assert done.row("accelerator")["status"] == "ok"


@pytest.mark.needs_root
def test_frozen_drop_ins_are_one_broken_row(
    frozen: Callable[..., Done], npudoctor: Npudoctor, tmp_path: Path
) -> None:
    done = frozen("check", *LIMITS, NPUDOCTOR_CHECKS_DIR="FROZEN/checks.d")
    assert (done.status, done.row("checks.d")["status"]) == (2, "broken")
    (npudoctor.drop_ins / "linked.py").symlink_to(tmp_path / "frozen/linked.py")
    npudoctor.drop_in("good")
    done = frozen("check", *LIMITS)
    assert "does not answer" in done.row("linked")["reason"] and done.row("good")["status"] == "ok"


@pytest.mark.needs_root
def test_a_check_that_touches_it_by_itself_is_ended(
    frozen: Callable[..., Done], npudoctor: Npudoctor
) -> None:
    npudoctor.drop_in("toucher", "os.listdir(os.environ['FROZEN'])\nyield")
    npudoctor.drop_in("asker", "host.files.names(host.variables['FROZEN'])\nyield")
    done = frozen("check", "toucher", "asker", *LIMITS)
    assert done.row("toucher")["status"] == "timeout"
    assert (done.row("asker")["status"], done.status) == ("unknown", 2)


def test_a_stopped_tool_is_unknown_in_time(npudoctor: Npudoctor, trusted: Path) -> None:
    python = python_that(trusted, NOTE.format(path=str(trusted / "pids")) + "posix.kill(posix.getpid(), 19)")
    npudoctor.drop_in("asker", "host.interpreter.version_of('numpy')\nreturn\nyield")
    started = time.monotonic()
    done = npudoctor("check", "asker", "scipy-version", *LIMITS, "--python", str(python))
    assert time.monotonic() - started < DEADLINE
    assert done.status == 2 and done.json["target"]["python"] == {"path": str(python), "version": None}
    assert {done.row(check)["status"] for check in ("asker", "scipy-version")} <= {"unknown", "timeout"}
    pids = (trusted / "pids").read_text().split()
    assert pids and not any(Path(f"/proc/{pid}").exists() for pid in pids)
