"""Where a shell leaves hardly any files or memory: a status of ours and one line, soon; never "not ready"."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import pytest

from .command import Npudoctor


def _under(limit: int, most: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Run in a fresh interpreter that lowers its limit itself: Python's own start is not ours to judge."""
    script = (
        f"import resource, sys; hard = resource.getrlimit({limit})[1];"
        f"resource.setrlimit({limit}, ({most}, hard)); sys.argv = ['npudoctor', *{list(words)!r}];"
        "from npudoctor.__main__ import main; sys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=90, check=False
    )


@pytest.mark.parametrize("words", [("check", "--expect", "none", "-q"), ("list",), ("env",)])
@pytest.mark.parametrize("most", [4, 5, 6])
@pytest.mark.usefixtures("npudoctor")
def test_hardly_any_files(words: tuple[str, ...], most: int) -> None:
    done = _under(resource.RLIMIT_NOFILE, most, *words)
    assert done.returncode in (0, 2, 64, 70) or "file-limits.unusable" in done.stdout, done
    if done.returncode in (64, 70):
        lines = [line for line in done.stderr.splitlines() if "npudoctor: warning:" not in line]
        assert len(lines) == 1 and lines[0].startswith("npudoctor: "), done
        assert done.stdout == ("false\n" if words == ("env",) else "")


@pytest.mark.parametrize("mib", [34, 63, 95])
@pytest.mark.usefixtures("npudoctor")
def test_too_little_memory_to_begin_with(mib: int) -> None:
    done = _under(resource.RLIMIT_AS, mib << 20, "check", "--expect", "none", "-q")
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr == (
        f"npudoctor: MemoryError: ulimit -v leaves {mib} MiB of address space, and 96 MiB are needed\n"
    )


@pytest.mark.parametrize("mib", [96, 128, 256])
def test_hardly_any_memory(npudoctor: Npudoctor, mib: int) -> None:
    started = time.monotonic()
    done = _under(resource.RLIMIT_AS, mib << 20, "check", "--expect", "none", "-q", "--deadline", "20")
    assert time.monotonic() - started < 60
    # Never ended by a signal: threads share what there is.
    assert done.returncode in (2, 70) or "memory.address-space" in done.stdout, done
