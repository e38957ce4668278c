"""Built-in checks run in threads: one that never comes back keeps neither the report nor the process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest

from .command import Npudoctor

SCRIPT = """
import os, sys, threading, time
from npudoctor.registry import registry
from npudoctor.checking.check import check
from npudoctor.core.model import Finding, Scope, Severity

def made(id, ask):
    ask.__doc__ = f"{id} is fine."
    return check(id, scope=Scope.NODE, codes={id + ".bad": Severity.ERROR})(ask)

def sleeps(host):
    time.sleep(600)
    yield

def reads(host):
    os.open("fifo", os.O_RDONLY)
    yield

def leaves_a_thread(host):
    threading.Thread(target=time.sleep, args=(600,), daemon=False).start()
    return
    yield

def prints_late(host):
    time.sleep(1.2)
    while True:
        print("late" * 100000, flush=True)
    yield

def crashes(host):
    raise KeyError("x")
    yield

def undeclared(host):
    yield Finding("other.bad", "x")

def finds(host):
    yield Finding("finds.bad", "x", evidence=("y" * 1000,) * 500)

named = {name.replace("_", "-"): globals()[name] for name in sys.argv[1].split(",")}
os.mkfifo("fifo")
checks = tuple(made(id, ask) for id, ask in named.items())
registry.load_all = lambda variables, seconds: registry.LoadedChecks(checks, (), {})
from npudoctor.cli.main import run
sys.exit(run(["check", "--format", "json", "--timeout", "1", *sys.argv[2:]]))
"""
ALL = "sleeps,reads,leaves_a_thread,prints_late,crashes,undeclared,finds"


def run(npudoctor: Npudoctor, names: str, *arguments: str) -> tuple[int, dict[str, Any], float]:
    """The status, the rows by check, and how long it took, with a reader that is slow."""
    command = '"$@" | { sleep 2; cat; }; exit "${PIPESTATUS[0]}"'
    started = time.monotonic()
    done = subprocess.run(
        ["bash", "-c", command, "bash", sys.executable, "-c", SCRIPT, names, *arguments],
        env=npudoctor.environment({}), cwd=npudoctor.folder, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert report["exit_code"] == done.returncode
    return done.returncode, {row["check"]: row for row in report["results"]}, time.monotonic() - started


def test_the_report_is_whole_and_the_process_gone(npudoctor: Npudoctor) -> None:
    status, rows, took = run(npudoctor, ALL)
    assert status == 1 and took < 6
    assert {check: row["status"] for check, row in rows.items()} == {
        "sleeps": "timeout",
        "reads": "timeout",
        "leaves-a-thread": "ok",
        "prints-late": "timeout",
        "crashes": "crashed",
        "undeclared": "crashed",
        "finds": "problem",
    }
    assert rows["sleeps"]["reason"] == "no result within 1 s; the check was abandoned"
    assert rows["crashes"]["reason"] == "KeyError: 'x'"
    assert len(rows["finds"]["findings"][0]["evidence"]) == 500


@pytest.mark.parametrize(("names", "expected"), [("sleeps", 2), ("leaves_a_thread", 0), ("reads,finds", 1)])
def test_the_status_is_the_verdict_even_when_the_end_is_forced(
    npudoctor: Npudoctor, names: str, expected: int
) -> None:
    assert run(npudoctor, names)[0] == expected


def test_the_deadline_bounds_all_of_them(npudoctor: Npudoctor) -> None:
    status, rows, took = run(npudoctor, "sleeps,reads", "--deadline", "2", "--timeout", "50")
    assert status == 2 and took < 4
    assert {row["reason"] for row in rows.values()} == {"no result within 2 s; the check was abandoned"}
