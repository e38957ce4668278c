"""Runs one test in namespaces of its own: an empty /tmp, where cache servers put all they have, an empty
/var/lib, where root's journal is, and System V IPC without anybody's segments.

    unshare --mount --ipc --propagation private -- python isolation.py FRESH [KEEP ...] -- PYTEST-ARGUMENT ...

FRESH is an empty directory that becomes /tmp; each KEEP that lies in /tmp (a checkout, a virtual
environment) is brought along. There is no pid namespace: pids are the machine's, as a doctor sees them.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
UNSHARE = ("unshare", "--mount", "--ipc", "--propagation", "private", "--")


def command(fresh: Path, keep: Iterable[Path], pytest_arguments: Iterable[str]) -> list[str]:
    """What the test outside starts."""
    kept = [str(path) for path in outermost(keep) if Path("/tmp") in path.parents]
    return [*UNSHARE, sys.executable, __file__, str(fresh), *kept, "--", *pytest_arguments]


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Without those that lie in another one."""
    whole = set(paths)
    return sorted(path for path in whole if not whole.intersection(path.parents))


def mount(*arguments: str | Path) -> None:
    """mount(8)."""
    subprocess.run(["mount", *arguments], check=True)


def cover(fresh: Path, keep: Iterable[Path]) -> None:
    """Put the fresh directories over the machine's."""
    fresh.chmod(0o1777)
    for path in keep:
        place = fresh / path.relative_to("/tmp")
        place.mkdir(parents=True)
        mount("--rbind", path, place)
    mount("--rbind", fresh, "/tmp")
    mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/var/lib")


def adopt_daemons() -> None:
    """Become the parent of every daemon that is started below, and end with the test outside."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def end_children() -> None:
    """End, by pid, whatever is left; the IPC namespace and the mounts go with the last process."""
    for _ in range(10):
        children = psutil.Process().children(recursive=True)
        if not children:
            return
        for child in children:
            child.kill()
        psutil.wait_procs(children, timeout=5)


def main(fresh: str, *rest: str) -> int:
    """Cover, test, clean up."""
    end = rest.index("--")
    adopt_daemons()
    cover(Path(fresh), [Path(path) for path in rest[:end]])
    try:
        return int(pytest.main(list(rest[end + 1 :])))
    finally:
        end_children()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
