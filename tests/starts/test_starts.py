"""Two dozen machines of the corpus: the job of the standard library starts where it should."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Callable

import pytest

from .environments import provide
from .machine import JOBS, Machine
from .machines import MACHINES
from .stage import Unavailable, run

pytestmark = [pytest.mark.slow, pytest.mark.needs_root, pytest.mark.whole]

JOB = "multiprocessing"
# Each takes a second or two, and no wheel.
CHOSEN = """
    address-gone all-tmp-readonly as device-tty healthy lo-only lock-of-another nofile no-flock no-listen
    no-pipes no-posixshmem no-sqlite no-unix-sockets pids-enough port-elsewhere port-for-all root-few
    root-squashed semaphore-of-another shm-closed shm-full shm-missing tmp-readonly tmpdir-long tmpdir-symlink
""".split()
TRIED = [machine for machine in MACHINES if machine.name in {f"{JOB}-{name}" for name in CHOSEN}]


@pytest.mark.parametrize("machine", TRIED, ids=[machine.name for machine in TRIED])
def test_the_job_starts_where_it_should(machine: Machine, need: Callable[..., None]) -> None:
    need("unshare", "mount", "ip", "setpriv", "prlimit", "nsenter")
    try:
        ended = run(machine, provide(""), JOBS[JOB].words)
    except Unavailable as why:
        pytest.skip(str(why))
    assert ended.started != machine.broken, ended


# With ten descriptors no shell reads its script, without pipes or in 30 MB of addresses nothing runs; a
# lock's name is the job's own; where nothing can be locked a warning says so.
BEYOND = {
    f"{JOB}-{name}"
    for name in ("nofile", "as", "no-pipes", "lock-of-another", "semaphore-of-another", "no-flock")
}
ASKED = [machine for machine in TRIED if machine.name not in BEYOND]


@pytest.mark.parametrize("machine", ASKED, ids=[machine.name for machine in ASKED])
def test_check_says_whether_it_starts(machine: Machine, one_file: Path, need: Callable[..., None]) -> None:
    need("unshare", "mount", "ip", "setpriv", "prlimit", "nsenter")
    kept = provide("")
    doctor = kept / "bin" / "npudoctor.pyz"
    doctor.parent.mkdir(exist_ok=True)
    half = doctor.with_suffix(f".{os.getpid()}")
    half.write_bytes(one_file.read_bytes())
    half.replace(doctor)
    whose = ("--as-user", "root") if machine.user == "root" else ()
    asked = ("/usr/bin/python3", str(doctor), "check", "--expect", "none", "--format", "json", *whose)
    try:
        ended = run(machine, kept, asked)
    except Unavailable as why:
        pytest.skip(str(why))
    report = json.loads(ended.output)
    assert (report["verdict"], ended.status) == (("not_ready", 1) if machine.broken else ("ready", 0)), [
        finding["message"] for row in report["results"] for finding in row["findings"]
    ] + [row["reason"] for row in report["results"] if row["status"] == "unknown"]
