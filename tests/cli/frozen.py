"""Runs a command beside a FUSE that never answers: frozen.py MOUNT-POINT COMMAND...

The mount lives in a mount namespace of its own. When this process ends, /dev/fuse is closed, which wakes
whoever still waits: nothing can stay stuck, even if the command under test did.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time

CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
LIMIT = 60


def frozen_mount(point: str) -> None:
    """Mount it here and now; the descriptor stays open until we end."""
    libc = ctypes.CDLL(None, use_errno=True)

    def must(result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    must(libc.unshare(CLONE_NEWNS))
    must(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
    must(libc.mount(b"frozen", os.fsencode(point), b"fuse", 0, options))


def main(point: str, *command: str) -> int:
    """Tell, as JSON, how the command ended, how long it took, and who of its session is still there."""
    frozen_mount(point)
    started = time.monotonic()
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, err = running.communicate(timeout=LIMIT)
        status = running.returncode
    except subprocess.TimeoutExpired:
        running.kill()
        out, err, status = "", "it did not end", -1
    took = time.monotonic() - started
    time.sleep(0.3)
    told = {"status": status, "out": out, "err": err, "seconds": took, "left": left(point)}
    json.dump(told, sys.stdout)
    return 0


def left(point: str) -> list[str]:
    """The command lines of those who were started with this mount in their variables and live on."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/cmdline", "rb") as line:
                if int(pid) != os.getpid() and f"FROZEN={point}".encode() in environ.read():
                    found.append(line.read().decode(errors="replace"))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
