"""run: what the job inherits: streams, descriptors, directory, limits, dispositions, mask."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from typing import Any

import pytest

from .command import Npudoctor, heed_signals
from .running import quiet_machine

SELF = """
import json, os, resource
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
fds = {}
for name in os.listdir("/proc/self/fd"):
    try:
        fds[name] = os.readlink("/proc/self/fd/" + name)
    except FileNotFoundError:
        pass
print(json.dumps({
    "fds": sorted(fds, key=int), "cwd": os.getcwd(), "umask": os.umask(0), "nice": os.nice(0),
    "core": resource.getrlimit(resource.RLIMIT_NOFILE), "ppid": os.getppid(), "pgid": os.getpgrp(),
    "sid": os.getsid(0), "ignored": status["SigIgn"].strip(), "blocked": status["SigBlk"].strip(),
}), file=open("told.json", "w"))
"""


@pytest.fixture
def run(npudoctor: Npudoctor) -> Npudoctor:
    """The command on a machine that is ready."""
    return quiet_machine(npudoctor)


def told(run: Npudoctor, wrapped: bool, **options: Any) -> dict[str, Any]:
    """What a process says of itself, started by us through `run` or directly."""
    # A shell changes none of it, and Python must not ignore SIGPIPE before it looks.
    line = [sys.executable, "-c", SELF]
    argv = run.argv("run", *line) if wrapped else line
    subprocess.run(argv, env=run.environment({}), cwd=run.folder, check=True, timeout=60, **options)
    found: dict[str, Any] = json.loads((run.folder / "told.json").read_text())
    return found


def unusual() -> None:
    heed_signals()
    os.umask(0o027)
    os.nice(3)
    resource.setrlimit(resource.RLIMIT_NOFILE, (333, 444))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGTERM})


def test_the_job_is_as_it_would_be_without_us(run: Npudoctor) -> None:
    reading, writing = os.pipe()
    kept = {"pass_fds": (reading, writing), "stdin": subprocess.DEVNULL, "preexec_fn": unusual}
    direct, wrapped = told(run, False, **kept), told(run, True, **kept)
    os.close(reading)
    os.close(writing)
    assert direct.pop("ppid") == os.getpid() != wrapped.pop("ppid")
    assert direct == wrapped
    assert {str(reading), str(writing)} < set(wrapped["fds"])
    mask = int(wrapped["ignored"], 16)
    assert mask >> signal.SIGHUP - 1 & 1 and mask >> signal.SIGCHLD - 1 & 1


def test_sigpipe_ends_the_job_as_it_would(run: Npudoctor) -> None:
    done = run.shell('"$@" run yes | head -1; exit "${PIPESTATUS[0]}"')
    assert (done.out, done.status) == ("y\n", 128 + signal.SIGPIPE)


def test_input_and_output_are_the_jobs_byte_by_byte(run: Npudoctor) -> None:
    content = os.urandom(10 << 20)
    done = subprocess.run(
        run.argv("run", "cat"), input=content, env=run.environment({}), cwd=run.folder, capture_output=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout == content and done.stderr == b""


def test_nothing_of_the_input_is_read_before(run: Npudoctor) -> None:
    run.drop_in("reads", "sys.stdin.read() if sys.stdin else None\nreturn\nyield", scope="JOB")
    done = run.shell('printf "one\\ntwo\\n" | { "$@" run head -1; cat; }')
    assert done.out.startswith("one\n")
    done = run.shell('printf "one\\n" | "$@" run --expect none cat')
    assert done.out == "one\n"


@pytest.mark.parametrize(
    ("closing", "status"), [("<&-", 3), (">&-", 0), ("2>&-", 3), ("<&- >&- 2>&-", 0), ("<&- >&- 2>&-", 3)]
)
def test_closed_streams_stay_closed(run: Npudoctor, closing: str, status: int) -> None:
    look = f"for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && o=$o$n; done; echo $o >open; exit {status}"
    done = run.shell(f"\"$@\" run bash -c '{look}' {closing}")
    assert done.status == status
    wanted = "".join(
        n for n, sign in (("0", "<&-"), ("1", " >&-"), ("2", "2>&-")) if sign not in " " + closing
    )
    assert (run.folder / "open").read_text().strip() == wanted


def test_who_reads_from_the_job_sees_it_close(run: Npudoctor) -> None:
    """Nobody of ours keeps what the job was given: not who waits, not the witness, not the check."""
    reading, writing = os.pipe()
    line = f"exec >&- <&- {writing}>&-; sleep 300"
    running = run.start("run", "bash", "-c", line, pass_fds=(writing,), preexec_fn=None)
    os.close(writing)
    try:
        assert running.stdout is not None
        assert running.stdout.read() == b"" and os.read(reading, 1) == b""
        assert running.poll() is None
    finally:
        os.close(reading)
        running.terminate()
        assert running.wait(20) == 143
        running.communicate()


def test_memory_of_the_one_who_waits_is_small(run: Npudoctor) -> None:
    code = "import os; print(open(f'/proc/{os.getppid()}/smaps_rollup').read())"
    pss = next(
        line for line in run("run", sys.executable, "-c", code).out.splitlines() if line.startswith("Pss:")
    )
    assert int(pss.split()[1]) < 40 << 10
