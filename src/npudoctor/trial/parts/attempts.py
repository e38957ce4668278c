"""Asks one thing after the other, and says what came of it, a line of JSON each."""

import contextlib
import errno
import json
import os
import signal
import sys
import time
from typing import Any, Dict, Iterator

# With -c the working directory comes first: what lies there is not the standard library.
sys.path[:] = [folder for folder in sys.path if folder]
QUESTIONS = json.loads(sys.argv[1])
# Whatever becomes of the process that started this, nobody stays: SIGALRM ends who does not heed it.
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.alarm(QUESTIONS["seconds"])
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)


LIMITS = {
    "Max address space": "AS",
    "Max core file size": "CORE",
    "Max cpu time": "CPU",
    "Max data size": "DATA",
    "Max file locks": "LOCKS",
    "Max file size": "FSIZE",
    "Max locked memory": "MEMLOCK",
    "Max msgqueue size": "MSGQUEUE",
    "Max nice priority": "NICE",
    "Max open files": "NOFILE",
    "Max pending signals": "SIGPENDING",
    "Max processes": "NPROC",
    "Max realtime priority": "RTPRIO",
    "Max realtime timeout": "RTTIME",
    "Max resident set": "RSS",
    "Max stack size": "STACK",
}
# Those of the job, where another process has them; what is above ours stays out of reach.
for limit, (soft, hard) in QUESTIONS["limits"].items():
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        kind = getattr(resource, "RLIMIT_" + LIMITS.get(limit, ""))
        pair = [resource.RLIM_INFINITY if value is None else value for value in (soft, hard)]
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (pair[0], resource.getrlimit(kind)[1]))
        resource.setrlimit(kind, (pair[0], pair[1]))


def say(words: Dict[str, Any]) -> None:
    """One line, at once."""
    os.write(1, json.dumps(words).encode() + b"\n")


def refusal(error: Exception) -> Dict[str, Any]:
    """An exception as data: its errno, and what the system or the library says."""
    number = getattr(error, "errno", None)
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, MemoryError):
        number, text = number or errno.ENOMEM, text if str(error) else os.strerror(errno.ENOMEM)
    return {"number": number if isinstance(number, int) else 0, "why": str(text)}


@contextlib.contextmanager
def attempt(what: str, **facts: Any) -> Iterator[Dict[str, Any]]:
    """Try something: whatever it raises is said, and the next attempt is made. What the attempt finds out is
    put into the dict that it is given."""
    say({"try": what})
    since = time.monotonic()
    answer: Dict[str, Any] = {"what": what, "facts": facts}
    try:
        yield facts
    except Exception as error:
        answer.update(refusal(error))
    answer["seconds"] = round(time.monotonic() - since, 6)
    say(answer)


def end() -> None:
    """All was tried. Nothing of Python's own end runs."""
    say({"end": True})
    os._exit(0)
