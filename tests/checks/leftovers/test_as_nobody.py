"""`npudoctor check leftovers` by an ordinary user who logged in: what others leave or do is no word."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.support.over import mount_over

ROOT = Path(__file__).parents[3]

# /dev/shm and /tmp of our own, with what root left, uses and builds, and a Python that he can start.
PLACES = """
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
{over}
mkdir /tmp/python
mount --bind {python} /tmp/python
"""
SCENE = """
import os, site, subprocess, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.headless import headless

def kept(path, size=1 << 21):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(bytes(size))
    os.utime(path, (0, 0))

dead = subprocess.Popen(["true"]); dead.wait()
kept(f"/dev/shm/torch_{{dead.pid}}_1_0", 1 << 24)
kept("/dev/shm/psm_1a2b3c4d")
kept("/dev/shm/psm_4d3c2b1a")
with open("/dev/shm/psm_4d3c2b1a", "r+b") as much:
    os.posix_fallocate(much.fileno(), 0, 1 << 30)
kept("/dev/shm/hccl_sync/a", 1 << 24)
os.mkdir("/tmp/pymp-root0000", 0o700)
lock = "/tmp/home/.cache/torch_extensions/py311_cpu/x/lock"
kept(lock)
if {level}:
    subprocess.run(["mount", "-t", "proc", "-o", "hidepid={level}", "proc", "/proc"], check=True)
with headless(Path("/dev/shm/psm_1a2b3c4d"), "mapped"), headless(Path(lock)):
    os.chdir("/")
    raise SystemExit(subprocess.run({session!r}, stdin=subprocess.DEVNULL).returncode)
"""
# An hour later, as nothing is said of what is young; the machine may bear the mark of an image.
MAIN = """
import site, sys, time
now = time.time
time.time = lambda: now() + 3600
site.addsitedir({site!r})
from npudoctor.__main__ import main
from npudoctor.host.system import System
System.container = lambda self: False
sys.exit(main())
"""


@pytest.mark.needs_root
@pytest.mark.parametrize("level", [0, 1, 2])
def test_it_is_quiet(level: int) -> None:
    """Without a terminal, in a session of its own, as `ssh NODE npudoctor check leftovers` starts it."""
    words = {
        "PATH": "/usr/bin:/bin", "HOME": "/tmp/home", "USER": "nobody", "LOGNAME": "nobody",
        "SHELL": "/bin/sh", "LD_LIBRARY_PATH": "/tmp/python/lib",
        "SSH_CONNECTION": "192.0.2.1 50000 192.0.2.2 22",
    }  # fmt: skip
    program = f"/tmp/python/bin/{Path(sys.executable).resolve().name}"
    session = [
        "setsid", "-w", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "-i",
        *(f"{name}={value}" for name, value in words.items()),
        program, "-c", MAIN.format(site=sysconfig.get_path("purelib")),
        "check", "leftovers", "--format", "json",
    ]  # fmt: skip
    code = SCENE.format(root=str(ROOT), level=level, session=session)
    places = (
        PLACES.format(over=mount_over("/tmp", "mode=1777"), python=shlex.quote(sys.base_prefix)) + 'exec "$@"'
    )
    own = ["unshare", "-m", "-i", "--propagation", "private", "sh", "-ec", places, "sh", sys.executable]
    done = subprocess.run([*own, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    rows = json.loads(done.stdout or "{}").get("results")
    assert rows, done.stderr
    loud = [one for row in rows for one in row["findings"] if one["severity"] != "info"]
    assert loud == []
    undone = [row for row in rows if row["needed"] and row["status"] not in ("ok", "skipped")]
    assert undone == []
