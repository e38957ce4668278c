"""Imports one framework as a job does, and tells what that took. Arguments: the modules, in their order."""

import sys
import time


def peak() -> int:
    """The most memory of this program so far, in bytes; getrusage counts what was there before its start."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")), 0)


def import_all() -> None:
    """Import the modules in order; answer with their versions, the seconds and the bytes that it took."""
    before, started = peak(), time.time()
    versions = {}
    for name in sys.argv[1:]:
        __import__(name)
        # Some versions are objects of their own, as torch's.
        version = getattr(sys.modules.get(name), "__version__", None)
        versions[name] = None if version is None else str(version)
    words = {"versions": versions, "seconds": round(time.time() - started, 3), "bytes": peak() - before}
    answer(words)  # type: ignore[name-defined]  # noqa: F821


watch(import_all)  # type: ignore[name-defined]  # noqa: F821
