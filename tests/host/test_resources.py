"""Memory, CPUs and limits as psutil says them of the running machine; and what is said where it cannot."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Callable, Optional
from unittest.mock import Mock

import psutil
import pytest

from npudoctor import Status
from npudoctor.checks.host.memory import memory
from npudoctor.core.errors import CannotTell, NotRunning
from npudoctor.host import Host, Options
from npudoctor.host.psutil_door import ask_psutil
from npudoctor.host.resources import LIMITS, Limit, Resources
from npudoctor.testing import ask

HERE = Resources()
ROOT = Path(__file__).parents[2]


def kernels_limits(pid: object) -> dict[str, Limit]:
    """/proc/PID/limits, whose first column is 26 wide."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    rows = [(line[:26].rstrip(), line[26:].split()) for line in lines]
    return {name: Limit(number(words[0]), number(words[1])) for name, words in rows}


def number(text: str) -> Optional[int]:
    return None if text == "unlimited" else int(text)


ASKS_OF_NOBODY = """
import subprocess
from npudoctor.host.resources import Resources
line = "setpriv --reuid 65534 --regid 65534 --clear-groups prlimit --nofile=64:64 cat".split()
with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
    process.stdin.write(b"!")
    process.stdout.read(1)
    print(Resources().limits(process.pid)["Max open files"])
"""


@pytest.fixture
def other() -> Iterator[int]:
    """A process with limits and CPUs of its own."""

    def narrow() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    pipe = subprocess.PIPE
    with subprocess.Popen(["cat"], stdin=pipe, stdout=pipe, preexec_fn=narrow) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        yield process.pid
        process.stdin.close()
        process.wait()


def test_memory_is_what_the_kernel_says() -> None:
    rows = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    found = HERE.memory()
    assert found.total == int(rows["MemTotal"].split()[0]) << 10
    assert 0 < found.available <= found.total


@pytest.mark.needs_root
def test_memory_without_its_table(need: Callable[..., None]) -> None:
    """As where lxcfs has died."""
    need("unshare", "mount")
    code = (
        "from npudoctor.host.resources import Resources; m = Resources().memory(); "
        "print(m.total, m.available, m.why_least, sep='|')"
    )
    script = f'mount --bind /dev/null /proc/meminfo; exec {sys.executable} -c "{code}"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False)
    total, least, why = done.stdout.strip().split("|")
    known = HERE.memory()
    assert abs(int(total) - known.total) < known.total / 50 and 0 < int(least) < known.total
    assert why.startswith("psutil cannot read the memory") and known.why_least == ""


def test_memory_of_which_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", Mock(side_effect=FileNotFoundError(2, "gone")))
    assert HERE.memory().why_least == "psutil cannot read the memory: No such file or directory"
    monkeypatch.setattr(os, "sysconf", Mock(side_effect=ValueError))
    with pytest.raises(CannotTell, match="psutil cannot read the memory"):
        HERE.memory()


def test_limits_are_called_as_the_kernel_calls_them(other: int) -> None:
    assert HERE.limits(0) == kernels_limits("self")
    assert HERE.limits(other) == kernels_limits(other)
    assert HERE.limits(other)["Max open files"] == Limit(64, 128)
    assert list(HERE.limits(0)) == list(LIMITS)


def test_the_cpus_of_a_process_are_those_that_it_may_run_on(other: int) -> None:
    assert HERE.cpus(0) == len(os.sched_getaffinity(0))
    assert HERE.cpus(other) == 1


def test_of_a_process_that_is_not_there_nothing_can_be_told() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(CannotTell, match=f"psutil cannot .* of process {ended.pid}: No such process"):
        HERE.cpus(ended.pid)
    with pytest.raises(CannotTell, match=f"/proc/{ended.pid}/limits cannot be read: No such file"):
        HERE.limits(ended.pid)


@pytest.mark.needs_root
def test_root_of_a_container_reads_the_limits_of_others() -> None:
    """Docker takes CAP_SYS_RESOURCE away."""
    told = subprocess.run(
        ["setpriv", "--bounding-set=-sys_resource", sys.executable, "-c", ASKS_OF_NOBODY],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.stdout == "Limit(soft=64, hard=64)\n", told.stderr


def test_an_image_has_none() -> None:
    with pytest.raises(NotRunning):
        _ = Host(Options(root="/nonexistent")).resources


def test_where_psutil_cannot_be_loaded_the_row_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    asked = ask(memory, Host(Options()))
    assert (asked.status, asked.advisory, asked.codes) == (Status.UNKNOWN, False, [])
    assert asked.reason.startswith("psutil cannot be loaded: `import of psutil halted")
    assert HERE.limits(0)  # our own need no psutil


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (psutil.AccessDenied(7), "Operation not permitted"),
        (PermissionError(13, "no"), "Permission denied"),
        (KeyError("MemTotal:"), "'MemTotal:'"),
        (ValueError("not a number"), "not a number"),
    ],
)
def test_what_psutil_raises_is_a_sentence(error: Exception, why: str) -> None:
    def fail(module: object) -> None:
        raise error

    with pytest.raises(CannotTell) as raised:
        ask_psutil("the memory", fail)
    assert raised.value.reason == f"psutil cannot read the memory: {why}"


def test_a_meminfo_with_few_rows_warns_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in gVisor: psutil warns of rows that we do not ask for."""
    (tmp_path / "meminfo").write_text("MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 400 kB\n")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = HERE.memory()
    assert (found.total, found.available) == (1000 << 10, 400 << 10)
    assert caught == []


@pytest.mark.needs_root
def test_on_a_mount_with_noexec_the_reason_says_so(tmp_path: Path, need: Callable[..., None]) -> None:
    need("unshare", "mount")
    package = Path(psutil.__file__).parent
    script = f"""
        set -e
        mount -t tmpfs -o noexec tmpfs {tmp_path}
        cp -r {package} {tmp_path}/psutil
        exec {sys.executable} -c 'import sys; sys.path[:0] = ["{tmp_path}", "{ROOT}/src"]
from npudoctor.core.errors import CannotTell
from npudoctor.host.resources import Resources
try:
    Resources().memory()
except CannotTell as why:
    print(why.reason)'
    """
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith(f"psutil cannot be loaded: {tmp_path}/psutil/"), done
    assert done.stdout.endswith("is on a noexec mount; set TMPDIR to another folder\n")


@pytest.mark.parametrize(
    ("words", "loaded"),
    [("list", False), ("--version", False), ("check scipy-version", False), ("check memory", True)],
)
def test_only_what_asks_something_of_it_loads_it(words: str, loaded: bool) -> None:
    start = [sys.executable, "-X", "importtime", "-m", "npudoctor", *words.split()]
    done = subprocess.run(start, capture_output=True, text=True, check=False)
    assert ("psutil\n" in done.stderr) is loaded
