"""Imports many packages in one process, as a trainer does, and tells which of them could be imported.

What several of them load is loaded once. Arguments: the statements of each, joined by semicolons, in order.
"""

import sys
import time


def peak() -> int:
    """The most memory of this program so far, in bytes; getrusage counts what was there before its start."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")), 0)


def import_each() -> None:
    """Import one after the other; answer with what they took, and how those failed that did."""
    seconds, memory, versions, raised = {}, {}, {}, {}
    for text in sys.argv[1:]:
        before, started = peak(), time.time()
        try:
            exec(text, {"__name__": "__main__"})  # noqa: S102  # of our table, and of root's rows
        except BaseException as error:
            raised[text] = chain(error)  # type: ignore[name-defined]  # noqa: F821
            continue
        seconds[text], memory[text] = round(time.time() - started, 3), peak() - before
        name = text.split()[1].rstrip(";")
        version = getattr(sys.modules.get(name.partition(".")[0]), "__version__", None)
        versions[name] = None if version is None else str(version)
    words = {"seconds": seconds, "bytes": memory, "versions": versions, "failures": raised}
    answer(words)  # type: ignore[name-defined]  # noqa: F821


watch(import_each)  # type: ignore[name-defined]  # noqa: F821
