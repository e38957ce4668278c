"""What `make run` shows: the report as a terminal shows it, and whether there was one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools/check_here.py"
CHECK = [sys.executable, "-m", "npudoctor", "check", "clock"]


def at_terminal(*argv: str) -> tuple[int, str]:
    """How the tool ends, and what a terminal shows of it."""
    ours, its = os.openpty()
    with subprocess.Popen([sys.executable, str(TOOL), *argv], stdout=its, stderr=its) as process:
        os.close(its)
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 1 << 16)
            except OSError:
                break
            shown += chunk
    os.close(ours)
    return process.returncode, shown.decode()


def test_the_report_is_coloured_on_a_terminal_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    status, shown = at_terminal(*CHECK)
    assert status == 0
    assert "\x1b[1;3" in shown and "check clock: exit status " in shown
    assert "\r\r" not in shown
    done = subprocess.run([sys.executable, str(TOOL), *CHECK], capture_output=True, text=True, check=True)
    assert "\x1b[" not in done.stdout and "exit status " in done.stdout


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo report; exit 0", 0),
        ("echo report; exit 1", 0),
        ("echo report; exit 2", 0),
        ("exit 1", 1),
        ("echo Traceback >&2; exit 1", 1),
        ("echo report; exit 70", 1),
    ],
)
def test_a_crash_is_no_report(script: str, expected: int) -> None:
    assert at_terminal("sh", "-c", script)[0] == expected
    piped = subprocess.run([sys.executable, str(TOOL), "sh", "-c", script], capture_output=True, check=False)
    assert piped.returncode == expected
