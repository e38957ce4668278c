"""Temporary files in memory, for as long as a run with several workers lasts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Optional

from . import ipc

ON_DISK = "NPUDOCTOR_TESTS_ON_DISK"
# pytest's, which it keeps to its user, and one for what other users must reach.
OURS, OPEN = "pytest-of-root", "npudoctor-tests"
LEAST = 8 << 20  # KiB of memory that are available


def keep_in_memory() -> bool:
    """Give this process, and all that it starts, a tmpfs where tests make their files; False where that is
    not permitted or not wanted.

    They make some hundred thousand small ones, and on ext4 the kernel took up to half a millisecond for each
    (Linux 6.18, virtio).
    """
    if os.geteuid() != 0 or os.environ.get(ON_DISK) or "PYTEST_DEBUG_TEMPROOT" in os.environ:
        return False
    available = _available()
    if available < LEAST:
        return False
    top = tempfile.gettempdir()
    try:
        for name in (OURS, OPEN):
            os.makedirs(f"{top}/{name}", mode=0o700, exist_ok=True)
        ipc.unshare("mnt")
        ipc.checked(ipc.libc.mount(b"none", b"/", None, ipc.PRIVATE | ipc.RECURSIVE, None), "mount")
        for name, mode in ((OPEN, 1777), (OURS, 700)):
            options = f"mode={mode},size={available // 2}k".encode()
            ipc.checked(ipc.libc.mount(b"tmpfs", f"{top}/{name}".encode(), b"tmpfs", 0, options), "mount")
    except OSError:
        return False
    # pytest takes the next number: two runs side by side have hardly a path in common. Of two digits, as
    # sockets in these folders have names of 107 bytes at most.
    os.mkdir(f"{top}/{OURS}/pytest-{os.getpid() % 90 + 9}", 0o700)
    return True


def open_place() -> Optional[str]:
    """The folder in memory for tempfile; None where there is none, which is /tmp."""
    place = f"{tempfile.gettempdir()}/{OPEN}"
    return place if os.path.ismount(place) else None


def _available() -> int:
    """Memory in KiB that programs could still get."""
    try:
        rows = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(row.split()[1]) for row in rows if row.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return 0
