"""Drop-ins that misbehave in every way harm nobody: the report is whole and in time, and they are gone."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from .command import Npudoctor

NOTHING = "return\nyield"
# name: (what it does when it is loaded, what it does when it is asked, how its row ends, part of the reason)
WAYS: dict[str, tuple[str, str, str, str]] = {
    "hangs": ("", "time.sleep(600)\nyield", "timeout", "no answer in time"),
    "hangs-loading": ("time.sleep(600)", NOTHING, "broken", "did not finish"),
    "ignores-signals": (
        "",
        "for number in {*range(1, 32)} - {9, 19}: signal.signal(number, 1)\ntime.sleep(600)\nyield",
        "timeout",
        "",
    ),
    "holds-the-lock": ("", "import ctypes\nctypes.PyDLL(None).sleep(600)\nyield", "timeout", ""),
    "crashes": ("", "{}['key']\nyield", "crashed", "KeyError: 'key'"),
    "crashes-loading": ("1 / 0", NOTHING, "broken", "ZeroDivisionError"),
    "is-no-python": ("def (", NOTHING, "broken", "SyntaxError"),
    "exits": ("", "os._exit(0)\nyield", "crashed", "ended without a result"),
    "exits-loading": ("os._exit(0)", NOTHING, "broken", "ended during loading"),
    "system-exit": ("", "sys.exit(0)\nyield", "crashed", "SystemExit: 0"),
    "system-exit-loading": ("sys.exit(0)", NOTHING, "broken", "SystemExit"),
    "interrupts": ("", "raise KeyboardInterrupt\nyield", "crashed", "KeyboardInterrupt"),
    "prints": ("print('x' * 10**7)", "sys.stderr.write('x' * 10**7)\n" + NOTHING, "ok", ""),
    "floods": ("", "yield Finding('floods.bad', 'x' * 10**7)", "crashed", ""),
    "floods-bit-by-bit": (
        "",
        "while True: yield Finding('floods-bit-by-bit.note', 'x' * 10**5)",
        "crashed",
        "larger than 4 MiB",
    ),
    "eats-memory": ("", "x = bytearray(3 << 30)\nyield", "crashed", "MemoryError"),
    "eats-memory-loading": ("x = bytearray(3 << 30)", NOTHING, "broken", "MemoryError"),
    "closes-all": ("", "os.closerange(0, 4096)\n" + NOTHING, "crashed", ""),
    "closes-standard": ("", "os.closerange(0, 3)\n" + NOTHING, "ok", ""),
    "changes-directory": ("os.chdir('/proc')", "os.chdir('/sys')\n" + NOTHING, "ok", ""),
    "kills-itself": ("", "os.kill(os.getpid(), signal.SIGKILL)\nyield", "crashed", ""),
    "stops-itself": ("", "os.kill(os.getpid(), signal.SIGSTOP)\nyield", "timeout", ""),
    "kills-its-group": ("", "os.killpg(0, signal.SIGKILL)\nyield", "crashed", ""),
    "kills-its-group-loading": ("os.killpg(0, signal.SIGKILL)", NOTHING, "broken", ""),
    "kills-its-parent": ("", "os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)\nyield", "crashed", ""),
    "segfaults": ("", "import ctypes\nctypes.string_at(0)\nyield", "crashed", ""),
    "recurses": ("", "def f(): f()\nf()\nyield", "crashed", "RecursionError"),
    "forks": ("", "os.fork()\n" + NOTHING, "ok", ""),
    "forks-loading": ("os.fork()", NOTHING, "ok", ""),
    "skips": ("", "raise Skip('not here')\nyield", "skipped", "not here"),
    "cannot-tell": ("", "raise Unknown('no way')\nyield", "unknown", "no way"),
    "advises": ("", "raise Unknown('no way', advisory=True)\nyield", "unknown", "no way"),
    "undeclared": ("", "yield Finding('undeclared.other', 'x')", "crashed", "is not declared"),
    "too-severe": ("", "yield Finding('too-severe.note', 'x', severity=ERROR)", "crashed", "as INFO"),
    "yields-text": ("", "yield 'all is well'", "crashed", "not str"),
    "returns-none": ("", "return", "crashed", "TypeError"),
    "odd-facts": ("", "yield Facts({'x': float('nan')})", "crashed", "Out of range"),
    "odder-facts": ("", "yield Facts({'x': object()})", "crashed", "JSON"),
    "odd-finding": ("", "yield Finding('odd-finding.bad', 5)", "crashed", "5 is no text"),
    "odd-reason": ("", "raise Unknown(5)\nyield", "unknown", "5"),
    "mute-error": ("", "class E(Exception):\n    def __str__(self): return 1\nraise E\nyield", "crashed", ""),
    "writes-the-pipe": (
        "",
        "for n in os.listdir('/proc/self/fd'):\n    if int(n) > 2:\n"
        "        try: os.write(int(n), b'{\"answers\": 1}\\n')\n        except OSError: pass\n" + NOTHING,
        "crashed",
        "",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, float, list[str]]:
    """One run with all of them: its report, how long it took, and who was still there afterwards."""
    npudoctor = Npudoctor(tmp_path_factory.mktemp("ways"))
    for name, (top, body, _status, _reason) in WAYS.items():
        npudoctor.drop_in(name.replace("-", "_"), body, top=top)
    npudoctor.drop_in("good", "yield Finding('good.bad', 'found')")
    started = time.monotonic()
    done = npudoctor("check", "--format", "json", "--timeout", "8", "--deadline", "30", "--expect", "none")
    took = time.monotonic() - started
    time.sleep(0.5)
    mark = f"NPUDOCTOR_CHECKS_DIR={npudoctor.drop_ins}".encode()
    left = [
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/environ")
        if os.access(path, os.R_OK) and mark in _read(path)
    ]
    assert (done.status, done.err) == (1, ""), done.err
    return done.json, took, left


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("name", WAYS)
def test_every_way_to_misbehave_is_a_row(report: tuple[Any, float, list[str]], name: str) -> None:
    _top, _body, status, reason = WAYS[name]
    ids = (name, name.replace("-", "_"))  # one that could not be loaded is named by its file
    (row,) = [row for row in report[0]["results"] if row["check"] in ids and row["group"] == "drop-in"]
    assert row["status"] == status, row
    assert reason in (row["reason"] or ""), row
    assert row["needed"] == (status != "skipped" and name != "advises")


def test_the_others_are_not_disturbed(report: tuple[Any, float, list[str]]) -> None:
    rows = {row["check"]: row["status"] for row in report[0]["results"]}
    assert rows["good"] == "problem" and rows["accelerator"] == "ok"
    assert sum(row["group"] == "drop-in" for row in report[0]["results"]) == len(WAYS) + 1
    assert report[0]["msg"].startswith("not ready: 1 problem (good.bad)")


def test_the_run_is_over_by_its_deadline_and_nobody_is_left(report: tuple[Any, float, list[str]]) -> None:
    assert report[1] < 30 and report[2] == []
