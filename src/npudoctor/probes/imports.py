"""Imports one framework as a job does, and tells what that took. Arguments: the modules, in their order.

Or whole statements: `from transformers import Trainer` loads what `import transformers` leaves for later.
"""

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
        if " " in name:
            exec(name, {"__name__": "__main__"})  # noqa: S102  # of our table, and of root's rows
            name = name.split()[1]
        else:
            __import__(name)
        # Some versions are objects of their own, as torch's.
        version = getattr(sys.modules.get(name), "__version__", None)
        versions[name] = None if version is None else str(version)
    words = {"versions": versions, "seconds": round(time.time() - started, 3), "bytes": peak() - before}
    answer(words)  # type: ignore[name-defined]  # noqa: F821


watch(import_all)  # type: ignore[name-defined]  # noqa: F821
