"""Two dozen machines of the corpus: the job of the standard library starts where it should."""

from __future__ import annotations

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
