"""A real process whose main thread has ended while another thread lives, with a file mapped and open."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CODE = """
import ctypes, mmap, sys, threading, time
file = open(sys.argv[1], "r+b")
kept = mmap.mmap(file.fileno(), 0)
if sys.argv[2] == "mapped":
    file.close()
threading.Thread(target=time.sleep, args=(60,)).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


@contextmanager
def headless(path: Path, how: str = "open", *before: str) -> Iterator[int]:
    """Its pid. `how`: "open", or "mapped" alone. `before`: what it is started by."""
    argv = [*before, sys.executable, "-c", CODE, str(path), how]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"ready\n"
        end = time.monotonic() + 5
        while ") Z " not in Path(f"/proc/{child.pid}/stat").read_text():
            assert time.monotonic() < end
            time.sleep(0.01)
        yield child.pid
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
